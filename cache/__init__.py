"""The content-addressed cache of artifacts.

Everything here needs the standard library only and is cheap to import: it runs before anything else when an artifact is
already there. Errors are CacheError and ArtifactError; what is wrong with the cache's content is a miss and a warning of
the logger "fornaxc.cache".

When a blob is verified: its size whenever it is used; all its bytes whenever they are copied (export, import), by
`cache check`, and before use unless it is remembered that they were verified and size, times and inode are still what
they were then. So no change made through the file system goes unseen, a hit costs no reading, and only bits that rot
on the disk itself wait for `cache check`.
"""

from fornaxc.cache.cache import Cache, StoredArtifact
from fornaxc.cache.descriptor import Descriptor
from fornaxc.cache.keys import explain, key_of
from fornaxc.cache.location import cache_dir

__all__ = ["Cache", "Descriptor", "StoredArtifact", "cache_dir", "explain", "key_of"]
