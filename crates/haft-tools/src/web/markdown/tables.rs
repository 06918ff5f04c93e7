//! Tables: data tables as rows and columns, layout tables as their content.

use super::{
    super::html::{NodeId, Tag},
    PageWriter, is_line_number, one_line,
};

/// Maximum number of columns; a wider table is written as its content.
const MAX_COLUMNS: usize = 60;

struct TableCell {
    id: NodeId,
    is_head: bool,
    columns: usize,
    rows: usize,
}

impl PageWriter<'_> {
    pub(super) fn table(&mut self, id: NodeId) {
        self.strays(id);
        let rows = self.rows(id);
        if !self.is_data(id, &rows) {
            return self.arranged(&rows);
        }
        let caption =
            self.page.children(id).find(|child| self.page.tag(*child) == Some(Tag::Caption));
        if let Some(caption) = caption {
            self.emphasised(caption);
        }
        let is_head = |row: &NodeId| self.cells(*row).iter().all(|cell| cell.is_head);
        let has_head = rows.first().is_some_and(is_head) || self.has_head_section(id);
        self.is_tight = false;
        let text = self.written(&rows, has_head && !self.is_plain());
        self.out.block(&text, false);
    }

    /// Writes content outside of cells before the table, as browsers show it.
    fn strays(&mut self, id: NodeId) {
        let children: Vec<NodeId> = self.page.children(id).collect();
        for child in children {
            match self.page.tag(child) {
                Some(Tag::Tr | Tag::Thead | Tag::Tbody | Tag::Tfoot) => self.strays(child),
                Some(Tag::Td | Tag::Th | Tag::Caption | Tag::Col) => {}
                _ => self.stray(child),
            }
        }
    }

    fn has_head_section(&self, id: NodeId) -> bool {
        let mut sections = self.page.children(id).filter_map(|child| self.page.tag(child));
        sections.any(|tag| tag == Tag::Thead)
    }

    /// Returns the rows with cells, without those of nested tables.
    fn rows(&self, id: NodeId) -> Vec<NodeId> {
        let mut rows = Vec::new();
        for child in self.page.children(id) {
            match self.page.tag(child) {
                Some(Tag::Tr) => rows.push(child),
                Some(Tag::Thead | Tag::Tbody | Tag::Tfoot) => rows.extend(self.rows(child)),
                _ => {}
            }
        }
        rows.retain(|row| !self.cells(*row).is_empty());
        rows
    }

    fn cells(&self, row: NodeId) -> Vec<TableCell> {
        let number = |id: NodeId, name: &str| {
            let written = self.page.attribute(id, name).and_then(|text| text.trim().parse().ok());
            written.unwrap_or(1_usize).clamp(1, MAX_COLUMNS)
        };
        let cells = self.page.children(row).filter_map(|id| {
            let tag = self.page.tag(id).filter(|tag| matches!(tag, Tag::Td | Tag::Th))?;
            let (columns, rows) = (number(id, "colspan"), number(id, "rowspan"));
            Some(TableCell { id, is_head: tag == Tag::Th, columns, rows })
        });
        cells.collect()
    }

    /// Returns true for a data table, false for a layout table.
    fn is_data(&self, id: NodeId, rows: &[NodeId]) -> bool {
        let columns = rows.iter().map(|row| self.cells(*row).len()).max().unwrap_or(0);
        let has_head = rows.iter().flat_map(|row| self.cells(*row)).any(|cell| cell.is_head);
        let is_said = matches!(self.page.attribute(id, "role"), Some("presentation" | "none"));
        let holds_blocks = |cell: TableCell| {
            self.page.below(cell.id).any(|inner| {
                self.page.tag(inner).is_some_and(|tag| {
                    matches!(tag, Tag::Table | Tag::Pre | Tag::Blockquote | Tag::Form)
                        || tag.heading().is_some()
                })
            })
        };
        let is_wide = columns >= 2 && rows.len() >= 2;
        let is_readable = columns <= MAX_COLUMNS;
        is_readable
            && !is_said
            && (has_head || is_wide)
            && !rows.iter().flat_map(|row| self.cells(*row)).any(holds_blocks)
    }

    fn arranged(&mut self, rows: &[NodeId]) {
        for row in rows {
            for cell in self.cells(*row) {
                if !is_line_number(self.page, cell.id) {
                    self.is_tight = false;
                    self.blocks(cell.id);
                }
            }
        }
    }

    /// Writes a data table row by row, so that a table of a hundred thousand rows takes no more
    /// memory than its text. Only the head is padded to the widest row.
    fn written(&self, rows: &[NodeId], has_head: bool) -> String {
        let mut taken = vec![0_usize; MAX_COLUMNS];
        let (mut head, mut body, mut width) = (Vec::new(), String::new(), 0);
        for (number, row) in rows.iter().enumerate() {
            let line = self.line(*row, &mut taken);
            width = width.max(line.len());
            if has_head && number == 0 {
                head = line;
                continue;
            }
            if !body.is_empty() {
                body.push('\n');
            }
            match self.is_plain() {
                true => body.push_str(&line.join("\t")),
                false => body.push_str(&piped(&line)),
            }
        }
        if self.is_plain() {
            return body;
        }
        head.resize(width, String::new());
        format!("{}\n|{}\n{body}", piped(&head), " --- |".repeat(width))
    }

    /// Returns the text of every cell of a row. The text of a cell that spans rows or columns is in
    /// the first of them. `taken` counts for each column how many more rows a cell above spans.
    fn line(&self, row: NodeId, taken: &mut [usize]) -> Vec<String> {
        let mut line: Vec<String> = Vec::new();
        for cell in self.cells(row) {
            while taken.get(line.len()).is_some_and(|left| *left > 0) {
                line.push(String::new());
            }
            let at = line.len();
            line.push(self.cell(cell.id));
            line.extend((1..cell.columns).map(|_| String::new()));
            for column in taken.iter_mut().skip(at).take(cell.columns) {
                *column = cell.rows;
            }
        }
        taken.iter_mut().for_each(|left| *left = left.saturating_sub(1));
        line.truncate(MAX_COLUMNS);
        // Empty cells at the end are left out.
        let length = line.iter().rposition(|cell| !cell.is_empty()).map_or(1, |last| last + 1);
        line.truncate(length);
        line
    }

    fn cell(&self, id: NodeId) -> String {
        let mut text = String::new();
        self.inlines(id, &mut text);
        let pieces = text
            .split(if self.is_plain() { "\n" } else { "\\\n" })
            .map(one_line)
            .filter(|piece| !piece.is_empty());
        let pieces: Vec<String> = pieces.collect();
        if self.is_plain() { pieces.join(" ") } else { pieces.join("<br>").replace('|', "\\|") }
    }
}

fn piped(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}
