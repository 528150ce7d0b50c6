from typing_extensions import disjoint_base

from smg._fast.front import Answering

@disjoint_base
class Receiving(Answering): ...
