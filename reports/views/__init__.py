"""What commands print, as blocks: one builder for each thing that is shown, whatever the output."""
