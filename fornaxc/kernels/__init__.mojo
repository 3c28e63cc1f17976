from .elementwise import *
from .bmm import *
from .conv import *
from .pool import *
from .recurrent import *
from .scan import *
from .transpose import *
