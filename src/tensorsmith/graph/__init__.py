"""The model graph: nodes, operators as definitions, passes, fusion, tasks."""
