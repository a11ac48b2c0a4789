"""Times worth believing: how they are taken on a GPU, what the memory could have done, and what two of them say together.

`verdicts` and `student` are pure; `sampling`, `traffic` and `fills` work against the small protocols of
`touchgate.devices` and `touchgate.devices.stopwatch.Stopwatch`, which tests play with scripted times.
"""
