"""The content-addressed cache of artifacts.

Everything here needs the standard library only and is cheap to import: it runs before anything else when an artifact is
already there. Errors are CacheError and ArtifactError; what is wrong with the cache's content is a miss and a warning of
the logger "fornaxc.cache".
"""

from fornaxc.cache.cache import Cache, StoredArtifact
from fornaxc.cache.descriptor import Descriptor
from fornaxc.cache.keys import explain, key_of
from fornaxc.cache.location import cache_dir

__all__ = ["Cache", "Descriptor", "StoredArtifact", "cache_dir", "explain", "key_of"]
