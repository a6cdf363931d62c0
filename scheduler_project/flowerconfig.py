"""Flower's configuration file: Flower takes every name below that is one of its options."""

import os

from tornado.options import options

from scheduler_project.flower import defaults, require_login

require_login(options)
globals().update(defaults(os.environ))
