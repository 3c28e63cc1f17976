from .elementwise import *
from .scan import *
