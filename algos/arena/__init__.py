"""`agon arena`: a tournament between any agents on any game.

`schedule`   who meets whom, on which problem, in which seats
`entrants`   who takes part: agents by name, the policies of a run, its checkpoints
`results`    the file of the contests, from which a tournament goes on
`standings`  ratings, the cross-table, failures
`picture`    ratings as a figure
`tournament` plays what is left of the schedule
"""
