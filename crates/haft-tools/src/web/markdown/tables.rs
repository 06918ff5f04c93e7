//! Tables: those of data as rows and columns, those that only arrange things as what is in them.

use super::{
    super::html::{Id, Tag},
    Writer, is_line_number, one_line,
};

/// More columns than this are no table that anybody reads.
const MOST_COLUMNS: usize = 60;

struct Cell {
    id: Id,
    is_head: bool,
    columns: usize,
    rows: usize,
}

impl Writer<'_> {
    pub(super) fn table(&mut self, id: Id) {
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
        let mut lines = self.filled(&rows);
        let width = lines.iter().map(Vec::len).max().unwrap_or(0);
        lines.iter_mut().for_each(|line| line.resize(width, String::new()));
        let has_head = rows.first().is_some_and(|row| row.iter().all(|cell| cell.is_head))
            || self.has_head_section(id);
        self.is_tight = false;
        let text = if self.is_plain() { tabbed(&lines) } else { piped(lines, has_head, width) };
        self.out.block(&text, false);
    }

    /// What is in no cell stands before the table, as browsers show it.
    fn strays(&mut self, id: Id) {
        let children: Vec<Id> = self.page.children(id).collect();
        for child in children {
            match self.page.tag(child) {
                Some(Tag::Tr | Tag::Thead | Tag::Tbody | Tag::Tfoot) => self.strays(child),
                Some(Tag::Td | Tag::Th | Tag::Caption | Tag::Col) => {}
                _ => self.stray(child),
            }
        }
    }

    fn has_head_section(&self, id: Id) -> bool {
        let mut sections = self.page.children(id).filter_map(|child| self.page.tag(child));
        sections.any(|tag| tag == Tag::Thead)
    }

    /// The cells by rows, without those of tables inside.
    fn rows(&self, id: Id) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for child in self.page.children(id) {
            match self.page.tag(child) {
                Some(Tag::Tr) => rows.push(self.cells(child)),
                Some(Tag::Thead | Tag::Tbody | Tag::Tfoot) => rows.extend(self.rows(child)),
                _ => {}
            }
        }
        rows.retain(|row| !row.is_empty());
        rows
    }

    fn cells(&self, row: Id) -> Vec<Cell> {
        let number = |id: Id, name: &str| {
            let written = self.page.attribute(id, name).and_then(|text| text.trim().parse().ok());
            written.unwrap_or(1_usize).clamp(1, MOST_COLUMNS)
        };
        let cells = self.page.children(row).filter_map(|id| {
            let tag = self.page.tag(id).filter(|tag| matches!(tag, Tag::Td | Tag::Th))?;
            let (columns, rows) = (number(id, "colspan"), number(id, "rowspan"));
            Some(Cell { id, is_head: tag == Tag::Th, columns, rows })
        });
        cells.collect()
    }

    /// Rows of cells that hold words, rather than a way to put things side by side.
    fn is_data(&self, id: Id, rows: &[Vec<Cell>]) -> bool {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let has_head = rows.iter().flatten().any(|cell| cell.is_head);
        let is_said = matches!(self.page.attribute(id, "role"), Some("presentation" | "none"));
        let holds_blocks = |cell: &Cell| {
            self.page.below(cell.id).any(|inner| {
                self.page.tag(inner).is_some_and(|tag| {
                    matches!(tag, Tag::Table | Tag::Pre | Tag::Blockquote | Tag::Form)
                        || tag.heading().is_some()
                })
            })
        };
        let is_wide = columns >= 2 && rows.len() >= 2;
        let is_readable = columns <= MOST_COLUMNS;
        is_readable && !is_said && (has_head || is_wide) && !rows.iter().flatten().any(holds_blocks)
    }

    fn arranged(&mut self, rows: &[Vec<Cell>]) {
        for cell in rows.iter().flatten().filter(|cell| !is_line_number(self.page, cell.id)) {
            self.is_tight = false;
            self.blocks(cell.id);
        }
    }

    /// The words of every cell at its place; a cell over several rows or columns stands in its first.
    fn filled(&self, rows: &[Vec<Cell>]) -> Vec<Vec<String>> {
        let mut lines = Vec::with_capacity(rows.len());
        // For each column, how many more rows it is taken.
        let mut taken = vec![0_usize; MOST_COLUMNS];
        for row in rows {
            let mut line: Vec<String> = Vec::new();
            for cell in row {
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
            line.truncate(MOST_COLUMNS);
            lines.push(line);
        }
        lines
    }

    fn cell(&self, id: Id) -> String {
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

fn piped(lines: Vec<Vec<String>>, has_head: bool, width: usize) -> String {
    let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let rule = format!("|{}", " --- |".repeat(width));
    let mut lines = lines.into_iter();
    let head = if has_head { lines.next() } else { None };
    let head = head.unwrap_or_else(|| vec![String::new(); width]);
    let mut text = format!("{}\n{rule}", row(&head));
    for line in lines {
        text.push('\n');
        text.push_str(&row(&line));
    }
    text
}

fn tabbed(lines: &[Vec<String>]) -> String {
    lines.iter().map(|line| line.join("\t")).collect::<Vec<_>>().join("\n")
}
