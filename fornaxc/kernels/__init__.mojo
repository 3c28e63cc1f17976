from .elementwise import *
from .bmm import *
from .conv import *
from .scan import *
