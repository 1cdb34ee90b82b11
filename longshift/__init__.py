"""Longshift: long, unattended agent shifts. This is what the author of an agent and its tools needs."""

from longshift.agent import Agent
from longshift.episode import EpisodeReport, validate_episode
from longshift.evidence import EvidenceCheck, Trajectory, Verdict, evidence_check
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
    "EvidenceCheck",
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
    "Trajectory",
    "Verdict",
    "evidence_check",
    "tool",
    "validate_episode",
]
