"""The questions of each step to a task, a class each with the defaults of a task that has nothing to say."""
