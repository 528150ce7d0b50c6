"""What engines' text means: reasoning and tool calls taken out of it, piece by piece as it comes.

Pure: no sockets, no clocks, no workers. Templates and tokenizers belong here as well.
"""
