"""The server's side of `voice.v1`: a session for each WebSocket, in it an utterance for each `say`.

In reading order: `session` has the socket, `conversation` obeys, `speaking` is one utterance. Text
goes down through `text_flow`, sound comes up through `sound_flow`, and `acks` says what was heard.
"""
