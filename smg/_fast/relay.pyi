from typing import final

@final
class Relay:
    streaming: bool
