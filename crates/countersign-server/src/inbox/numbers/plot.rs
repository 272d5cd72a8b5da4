//! Converts statistics to shapes, which the template draws as SVG. Colours come from the stylesheet.

use std::time::Duration;

use serde::Serialize;

use super::count::{Span, Tool, percent, show_time};

/// Size of the plot area, in SVG units.
const WIDTH: usize = 640;
const HEIGHT: usize = 160;
/// Height of the axis labels below the plot area, in SVG units.
const FOOT: usize = 26;
/// Least space between bars, and the greatest width of a bar.
const GAP: usize = 3;
const WIDEST: usize = 45;

/// Plot over time.
#[derive(Debug, Serialize)]
pub struct Plot {
    width: usize,
    height: usize,
    floor: usize,
    /// Horizontal grid lines with their labels.
    marks: Vec<Mark>,
    bars: Vec<Bar>,
    /// Points of a line. The line is interrupted at spans without data.
    points: Vec<Point>,
    line: String,
    /// Labels below the first and the last span; one if there is only one span.
    labels: Vec<Label>,
}

/// Label below the plot area. `class` says which part of the text is at `x`.
#[derive(Debug, Serialize)]
struct Label {
    x: usize,
    class: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct Mark {
    y: usize,
    text: String,
}

#[derive(Debug, Serialize)]
struct Bar {
    x: usize,
    width: usize,
    parts: Vec<Part>,
    text: String,
}

#[derive(Debug, Serialize)]
struct Part {
    kind: &'static str,
    y: usize,
    height: usize,
}

#[derive(Debug, Serialize)]
struct Point {
    x: usize,
    y: usize,
    text: String,
}

/// Approval rate of one tool.
#[derive(Debug, Serialize)]
pub struct Rate {
    name: String,
    approved: usize,
    decided: usize,
    percent: usize,
}

/// Plots decisions over time as stacked bars. `None` if there are no decisions.
pub fn bars(spans: &[Span]) -> Option<Plot> {
    let most = spans.iter().map(total).max().filter(|most| *most > 0)?;
    let most = rounded_up(most);
    let mut plot = empty(spans)?;
    plot.marks = vec![
        Mark {
            y: 0,
            text: most.to_string(),
        },
        Mark {
            y: HEIGHT / 2,
            text: (most / 2).to_string(),
        },
    ];
    for (at, span) in spans.iter().enumerate() {
        let (x, width) = place(at, spans.len());
        let mut below = 0;
        let counts = [
            ("approved", span.approved),
            ("denied", span.denied),
            ("expired", span.expired),
        ];
        let parts = counts.into_iter().filter(|(_, count)| *count > 0);
        let parts = parts.map(|(kind, count)| {
            let top = (below + count) * HEIGHT / most;
            let height = top - below * HEIGHT / most;
            below += count;
            Part {
                kind,
                y: HEIGHT - top,
                height,
            }
        });
        plot.bars.push(Bar {
            x,
            width,
            parts: parts.collect(),
            text: format!(
                "{}: {} approved, {} denied, {} expired",
                day(&span.begins),
                span.approved,
                span.denied,
                span.expired
            ),
        });
    }
    Some(plot)
}

/// Plots the median time to decide as a line. `None` if there are no decisions.
pub fn line(spans: &[Span]) -> Option<Plot> {
    let longest = spans.iter().filter_map(|span| span.median).max()?;
    let longest = longest.max(Duration::from_secs(1));
    let mut plot = empty(spans)?;
    plot.marks = vec![
        Mark {
            y: 0,
            text: show_time(longest),
        },
        Mark {
            y: HEIGHT / 2,
            text: show_time(longest / 2),
        },
    ];
    let mut is_drawing = false;
    for (at, span) in spans.iter().enumerate() {
        let Some(median) = span.median else {
            is_drawing = false;
            continue;
        };
        let (left, width) = place(at, spans.len());
        let share = median.as_secs_f64() / longest.as_secs_f64();
        let y = HEIGHT - (share * HEIGHT as f64).round() as usize;
        let x = left + width / 2;
        plot.line
            .push_str(&format!("{}{x} {y}", if is_drawing { "L" } else { "M" }));
        is_drawing = true;
        plot.points.push(Point {
            x,
            y,
            text: format!("{}: {}", day(&span.begins), show_time(median)),
        });
    }
    Some(plot)
}

/// Computes the approval rate of each tool.
pub fn rates(tools: &[Tool]) -> Vec<Rate> {
    let rate = |tool: &Tool| Rate {
        name: tool.name.clone(),
        approved: tool.approved,
        decided: tool.decided,
        percent: percent(tool.approved, tool.decided),
    };
    tools.iter().map(rate).collect()
}

fn empty(spans: &[Span]) -> Option<Plot> {
    Some(Plot {
        width: WIDTH,
        height: HEIGHT + FOOT,
        floor: HEIGHT,
        marks: Vec::new(),
        bars: Vec::new(),
        points: Vec::new(),
        line: String::new(),
        labels: labels(spans)?,
    })
}

/// Returns the labels of the time axis, each at its own span.
fn labels(spans: &[Span]) -> Option<Vec<Label>> {
    let label = |span: &Span, class, x| Label {
        x,
        class,
        text: day(&span.begins),
    };
    let (left, width) = place(0, spans.len());
    let (first, last) = (spans.first()?, spans.last()?);
    if spans.len() == 1 {
        return Some(vec![label(first, "middle", left + width / 2)]);
    }
    let (right, right_width) = place(spans.len() - 1, spans.len());
    Some(vec![
        label(first, "start", left),
        label(last, "end", right + right_width),
    ])
}

fn total(span: &Span) -> usize {
    span.approved + span.denied + span.expired
}

/// Rounds up to a number that reads well on an axis and can be halved. Numbers above 10,000 are returned unchanged.
fn rounded_up(most: usize) -> usize {
    let steps = [2, 4, 10, 20, 40, 100, 200, 400, 1_000, 2_000, 4_000, 10_000];
    steps.into_iter().find(|step| *step >= most).unwrap_or(most)
}

/// Returns the position and width of bar number `at` (from 0) of `count`. The bars are spread over the whole width.
fn place(at: usize, count: usize) -> (usize, usize) {
    let count = count.max(1);
    let (left, right) = (at * WIDTH / count, (at + 1) * WIDTH / count);
    let width = (right - left).saturating_sub(GAP).clamp(1, WIDEST);
    (left + (right - left).saturating_sub(width) / 2, width)
}

/// Shortens a timestamp to month, day and time, such as `11-15 21:00`.
fn day(moment: &str) -> String {
    let short = moment.get(5..16).unwrap_or(moment);
    short.replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(approved: usize, denied: usize, median: Option<u64>) -> Span {
        Span {
            begins: "2026-11-15T21:00:00.000Z".to_owned(),
            approved,
            denied,
            expired: 0,
            median: median.map(Duration::from_secs),
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_stay_inside() {
        let plot = bars(&[span(3, 1, None), span(0, 0, None), span(10, 0, None)]).unwrap();
        assert_eq!(plot.bars.len(), 3);
        let parts = &plot.bars[0].parts;
        assert_eq!(parts[0].y + parts[0].height, HEIGHT);
        assert_eq!(parts[1].y + parts[1].height, parts[0].y);
        assert_eq!(plot.bars[2].parts[0].height, HEIGHT);
        assert!(plot.bars.iter().all(|bar| bar.x + bar.width <= WIDTH));
        assert!(bars(&[span(0, 0, None)]).is_none(), "nothing to draw");
    }

    #[test]
    fn labels_stand_below_the_first_and_the_last_bar() {
        for count in [1, 2, 3, 7, 30, 168, 400] {
            let spans: Vec<Span> = (0..count).map(|_| span(1, 0, None)).collect();
            let plot = bars(&spans).unwrap();
            let (first, last) = (&plot.bars[0], &plot.bars[count - 1]);
            assert!(last.x + last.width <= WIDTH, "{count}");
            assert!(
                plot.bars
                    .windows(2)
                    .all(|pair| pair[0].x + pair[0].width <= pair[1].x),
                "{count}"
            );
            // The bars are spread over the plot, so the space at both ends is the same.
            assert!(first.x.abs_diff(WIDTH - last.x - last.width) <= 2, "{count}");
            match plot.labels.as_slice() {
                [only] => assert!(count == 1 && only.x.abs_diff(WIDTH / 2) <= 1, "{}", only.x),
                [left, right] => assert_eq!((left.x, right.x), (first.x, last.x + last.width), "{count}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_line_is_broken_where_nothing_was_decided() {
        let plot = line(&[
            span(1, 0, Some(10)),
            span(0, 0, None),
            span(1, 0, Some(20)),
            span(1, 0, Some(5)),
        ]);
        let plot = plot.unwrap();
        assert_eq!(plot.line.matches('M').count(), 2);
        assert_eq!(plot.line.matches('L').count(), 1);
    }
}
