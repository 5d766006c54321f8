"""Past one process: contests are spread over workers, rows over ranks. Only adapters, gradients of adapters and texts travel.

`division`   who gets what, and how the parts are put together again: pure functions.
`ranks`      processes that learn side by side (torch.distributed), and their few collectives.
`ranked`     the learner, the critic and the rollouts of such processes.
`launch`     starts them on one machine.
`work`       what a rollout worker is told, and what it does.
`cluster`    Ray; `pool` has workers on it play.
`ray_config` their settings.
"""
