//! The history as a file: comma-separated values, or JSON lines.
//!
//! Input: past approvals. Output: one line for each, with text escaped as on the page.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

/// One approval in the file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub id: String,
    pub proposed_at: String,
    pub ended_at: String,
    pub status: String,
    pub outcome: String,
    pub risk: String,
    pub agent: String,
    pub requested_by: String,
    pub decided_by: String,
    pub decided_on: String,
    pub tools: String,
    pub summary: String,
    pub comment: String,
}

impl Entry {
    const NAMES: [&'static str; 13] = [
        "id",
        "proposed at (UTC)",
        "ended at (UTC)",
        "status",
        "outcome",
        "risk",
        "agent",
        "requested by",
        "decided by",
        "decided on",
        "tools",
        "summary",
        "comment",
    ];

    fn cells(&self) -> [&str; 13] {
        [
            &self.id,
            &self.proposed_at,
            &self.ended_at,
            &self.status,
            &self.outcome,
            &self.risk,
            &self.agent,
            &self.requested_by,
            &self.decided_by,
            &self.decided_on,
            &self.tools,
            &self.summary,
            &self.comment,
        ]
    }
}

/// Format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    JsonLines,
}

/// Makes a download.
pub fn file(entries: &[Entry], format: Format) -> Response {
    let (kind, name, text) = match format {
        Format::Csv => (
            "text/csv; charset=utf-8",
            "attachment; filename=\"history.csv\"",
            csv(entries),
        ),
        Format::JsonLines => (
            "application/jsonl; charset=utf-8",
            "attachment; filename=\"history.jsonl\"",
            json_lines(entries),
        ),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
    ];
    (headers, text).into_response()
}

fn json_lines(entries: &[Entry]) -> String {
    let line = |entry: &Entry| serde_json::to_string(entry).map(|line| line + "\n");
    entries.iter().filter_map(|entry| line(entry).ok()).collect()
}

fn csv(entries: &[Entry]) -> String {
    let row = |cells: [&str; 13]| cells.map(cell).join(",") + "\r\n";
    let rows = entries.iter().map(|entry| row(entry.cells()));
    std::iter::once(row(Entry::NAMES)).chain(rows).collect()
}

/// Quotes a cell. Spreadsheets take a text that begins with a sign such as `=` for a formula; an apostrophe in front of
/// the text prevents that.
fn cell(text: &str) -> String {
    let is_formula = text
        .trim_start_matches(|character: char| character.is_whitespace() || character.is_control())
        .starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '|', '%']);
    let sign = if is_formula || text.starts_with(['\t', '\r', '\n']) {
        "'"
    } else {
        ""
    };
    format!("\"{sign}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for (text, expected) in [
            ("Ana", "\"Ana\""),
            ("say \"hi\", Bo", "\"say \"\"hi\"\", Bo\""),
            ("=1+1", "\"'=1+1\""),
            ("  =1+1", "\"'  =1+1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("-2", "\"'-2\""),
            ("\t=1", "\"'\t=1\""),
            ("", "\"\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
