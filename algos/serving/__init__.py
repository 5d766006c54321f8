"""`agon serve`: the policies of a run behind an OpenAI-compatible endpoint.

`errors`      what is refused, in OpenAI's format
`schema`      requests
`forms`       responses, as each endpoint writes them
`models`      what is served: the pair as one model, each policy, the base
`prompts`     conversations, and texts to go on from
`scoring`     log-probabilities of tokens
`text`        text out of single tokens; stop sequences
`writing`     one completion on its way, speaker by speaker
`worker`      the thread that has the model: batches of whatever waits
`entrance`    which requests get in at all
`app`         routes, limits, streams
`server`      where it listens
"""
