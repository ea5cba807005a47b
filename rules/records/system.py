"""systems/<system>.json holds the 33 fields of a system description that MLPerf's system_desc_checker requires, all
strings."""

from typing import Annotated, Literal

from msgspec import Meta, field

from rules.records.codec import Record

_Given = Annotated[str, Meta(min_length=1)]
_Number = Annotated[str, Meta(pattern="^[0-9]*$", description="Empty, or a whole number.")]
Availability = Literal[
    "Available on-premise", "Available cloud", "Research, Development, or Internal (RDI)", "Preview"
]
"""Allowed values of `status` (availability) in a system description from MLPerf's round 4.1 on."""


class SystemRecord(Record, frozen=True, kw_only=True):
    """System description of MLPerf, systems/<system>.json. An empty string means that the value was neither given nor
    detected."""

    submitter: _Given
    division: Literal["", "closed", "open"]
    status: Availability
    system_name: _Given
    number_of_nodes: _Number
    host_processors_per_node: _Number
    host_processor_model_name: str
    host_processor_core_count: _Number
    host_processor_vcpu_count: _Number
    host_processor_frequency: str
    host_processor_caches: str
    host_processor_interconnect: str
    host_memory_capacity: str
    host_storage_type: str
    host_storage_capacity: str
    host_networking: str
    host_networking_topology: str
    host_memory_configuration: str
    accelerators_per_node: _Number
    accelerator_model_name: str
    accelerator_host_interconnect: str
    accelerator_frequency: str
    accelerator_on_chip_memories: str = field(name="accelerator_on-chip_memories")
    accelerator_memory_configuration: str
    accelerator_memory_capacity: str
    accelerator_interconnect: str
    accelerator_interconnect_topology: str
    cooling: str
    hw_notes: str
    framework: str
    other_software_stack: str
    operating_system: str
    sw_notes: str


SYSTEM_FIELDS: tuple[str, ...] = SystemRecord.__struct_encode_fields__
"""Keys of a system description, in the order in which its file has them."""
