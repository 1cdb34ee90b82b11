"""Longshift: long, unattended agent shifts. This is what the author of an agent and its tools needs."""

from longshift.agent import Agent
from longshift.episode import EpisodeReport, validate_episode
from longshift.limits import Limits
from longshift.questions import ApprovalRule
from longshift.status import Status
from longshift.tools import (
    ArgumentsRefused,
    DeclarationRefused,
    Tool,
    ToolContext,
    ToolError,
    ToolFatal,
    ToolNotFound,
    ToolOutcomeUnknown,
    ToolRefused,
    ToolTransient,
    tool,
)

__all__ = [
    "Agent",
    "ApprovalRule",
    "ArgumentsRefused",
    "DeclarationRefused",
    "EpisodeReport",
    "Limits",
    "Status",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolFatal",
    "ToolNotFound",
    "ToolOutcomeUnknown",
    "ToolRefused",
    "ToolTransient",
    "tool",
    "validate_episode",
]
