"""Flower's configuration file: it takes every name below that is one of its options."""

import os

from tornado.options import options

from scheduler_project.flower import defaults, demand_login

demand_login(options)
globals().update(defaults(os.environ))
