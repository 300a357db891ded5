"""The greenlets that wait (gevent, eventlet), read as data: where each stands.

A thread runs one of them at a time; the frames of the others are in no stack of the interpreter.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType, GetSetDescriptorType
from typing import Any

from pytest_cideldill.rendering.layout import class_dict, find, is_a


def find_waiting() -> list[list[FrameType]]:
    """The stacks of all greenlets that were begun and don't run, innermost first.

    Without the library this costs a look into `sys.modules`, else one at each object.
    """
    base: Any = getattr(sys.modules.get("greenlet"), "greenlet", None)
    if type(base) is not type:
        return []
    descriptor = find(class_dict(base), "gr_frame")
    if type(descriptor) is not GetSetDescriptorType:
        return []
    found = []
    for each in gc.get_objects():
        if is_a(type(each), base):
            frame, stack = descriptor.__get__(each, base), []
            while frame is not None:
                stack.append(frame)
                frame = frame.f_back
            if stack:
                found.append(stack)
    return found
