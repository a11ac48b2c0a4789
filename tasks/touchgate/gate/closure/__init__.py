"""Which files a lane's sources include, import or name, found by reading them: nothing is imported or run.

references is what a language module gives; tree is what it may ask of a commit or the working tree; graph walks. All of
it is imported late: an untouched run does without.
"""
