"""The paper's tables: definition, reproduction and rendering."""

from .cells import TableCell
from .definition import PaperTable, TableRow, list_tables, load_table
from .reproduction import TableResult, reproduce_table

__all__ = ["PaperTable", "TableCell", "TableResult", "TableRow", "list_tables", "load_table", "reproduce_table"]
