from .job import Job as Job, resolve_job as resolve_job
from .run import Run as Run
from .training import train as train, train_job as train_job
