//! The screen of `berth top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, Wrap};

use super::cloud::{Cloud, Hot};
use super::figures::{Figures, Timing};
use crate::cli::terminal::{Colours, bar};
use crate::observe::printable::escaped;

/// Width of a bar, in characters.
const BAR: usize = 20;

/// State of the screen.
pub(super) struct View {
    pub(super) url: String,
    pub(super) interval: u16,
    pub(super) is_paused: bool,
    /// The server's activity, or an error.
    pub(super) server: Result<Figures, String>,
    /// The latest snapshot of the cloud, if any, or an error.
    pub(super) cloud: Result<Option<Cloud>, String>,
    pub(super) hottest: Vec<Hot>,
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows =
        [Constraint::Length(2), Constraint::Min(8), Constraint::Length(9), Constraint::Min(6)];
    let [head, routes, middle, cloud] = Layout::vertical(rows).areas(frame.area());
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [database, planner] = Layout::horizontal(halves).areas(middle);
    let [classes, hottest] = Layout::horizontal(halves).areas(cloud);
    draw_head(frame, head, view);
    match &view.server {
        Ok(figures) => {
            draw_routes(frame, routes, figures);
            draw_database(frame, database, figures);
            draw_planner(frame, planner, figures);
        }
        Err(why) => {
            let text = Paragraph::new(escaped(why)).wrap(Wrap { trim: true });
            frame.render_widget(text.block(Block::bordered().title(" server ")), routes);
        }
    }
    draw_classes(frame, classes, view);
    draw_hottest(frame, hottest, view);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let mut words = vec![view.url.clone()];
    if let Ok(it) = &view.server {
        words.extend(it.version.clone());
        words.extend(
            it.is_ready.map(
                |is_ready| {
                    if is_ready { "ready".to_owned() } else { "NOT READY".to_owned() }
                },
            ),
        );
        words.extend(it.providers.map(|count| format!("{count} providers")));
        words.extend(it.requests_in_flight.map(|count| format!("{count} requests in flight")));
        words.extend(it.connections.map(|count| format!("{count} connections")));
        words.extend(it.processors.map(|count| format!("{count:.2} processors")));
        let mib = it.resident_bytes.map(|bytes| format!("{:.0} MiB", bytes / 1_048_576.0));
        words.extend(mib);
    }
    let title = Line::from(escaped(&words.join("  "))).bold();
    let pause = if view.is_paused { "p resumes" } else { "p pauses" };
    let keys = Line::from(format!("q quits, {pause}, every {} s", view.interval)).dim();
    frame.render_widget(Paragraph::new(vec![title, keys]), area);
}

fn draw_routes(frame: &mut Frame<'_>, area: Rect, figures: &Figures) {
    let heads = ["METHOD", "ROUTE", "REQ/S", "P50", "P99", "4XX/S", "5XX/S"];
    let widths = [7, 0, 9, 9, 9, 8, 8];
    let rows = figures.routes.iter().map(|it| {
        let failed = Cell::from(rate(it.failed_per_second));
        Row::new([
            Cell::from(escaped(&it.method)),
            Cell::from(escaped(&it.path)),
            Cell::from(rate(it.timing.per_second)),
            Cell::from(seconds(it.timing.p50)),
            Cell::from(seconds(it.timing.p99)),
            Cell::from(rate(it.refused_per_second)),
            if it.failed_per_second > 0.0 { failed.style(Color::Red) } else { failed },
        ])
    });
    let widths =
        widths.map(|it| if it == 0 { Constraint::Fill(1) } else { Constraint::Length(it) });
    let table = Table::new(rows, widths).header(Row::new(heads).style(Style::new().bold()));
    frame.render_widget(table.block(Block::bordered().title(" requests ")), area);
}

fn draw_database(frame: &mut Frame<'_>, area: Rect, figures: &Figures) {
    let claims = figures.claims;
    let mut lines = vec![
        format!(
            "claims       {} written/s, {} refused/s",
            rate(claims.written_per_second),
            rate(claims.refused_per_second)
        ),
        format!(
            "batches      {} claims in the mean, {}",
            claims.batch_size.map_or_else(|| "-".to_owned(), |size| format!("{size:.1}")),
            timing(claims.batch)
        ),
        format!("refresh      {}", timing(figures.refresh)),
        format!(
            "failures     {} of refresh/s, {} transactions again/s",
            rate(figures.refresh_failures_per_second),
            rate(figures.transactions_retried_per_second)
        ),
    ];
    lines.extend(figures.pool.map(|(used, most)| format!("connections  {used} of {most} in use")));
    draw_lines(frame, area, " database ", lines);
}

fn draw_planner(frame: &mut Frame<'_>, area: Rect, figures: &Figures) {
    let mut lines = vec![
        format!("candidates    {}/s", rate(figures.candidates_per_second)),
        format!("plans         {}/s", rate(figures.plans_per_second)),
    ];
    lines.extend(
        figures
            .turns
            .iter()
            .map(|it| format!("{:12}  {} in progress, {} waiting", it.kind, it.held, it.waiting)),
    );
    draw_lines(frame, area, " searches and plans ", lines);
}

fn draw_classes(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let lines = match &view.cloud {
        Err(why) => vec![why.clone()],
        Ok(None) => vec!["no data yet".to_owned()],
        Ok(Some(cloud)) if cloud.classes.is_empty() => {
            vec!["there is no inventory, or there are too many providers to read".to_owned()]
        }
        Ok(Some(cloud)) => {
            let width = cloud.classes.iter().map(|it| it.name.len()).fold(0, usize::max);
            let line = |it: &super::cloud::Class| {
                let bar = bar(it.used, it.capacity, BAR, Colours::None);
                format!("{:width$}  {bar}  {} of {}", it.name, it.used, it.capacity)
            };
            cloud.classes.iter().map(line).collect()
        }
    };
    draw_lines(frame, area, " fullest classes ", lines);
}

fn draw_hottest(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let line = |it: &Hot| format!("{}/s  {}", rate(it.changes_per_second), it.name);
    draw_lines(
        frame,
        area,
        " providers with most writes ",
        view.hottest.iter().map(line).collect(),
    );
}

fn draw_lines(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<String>) {
    let line = |line: String| Line::from(escaped(&line));
    let lines: Vec<Line<'_>> = lines.into_iter().map(line).collect();
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(text.block(Block::bordered().title(title)), area);
}

fn timing(it: Timing) -> String {
    let Timing { per_second, mean, p99, .. } = it;
    format!("{}/s, mean {}, p99 {}", rate(per_second), seconds(mean), seconds(p99))
}

/// A number per second.
fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

fn seconds(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::draw;
    use crate::cli::top::View;
    use crate::cli::top::cloud::Hot;
    use crate::cli::top::exposition::Samples;
    use crate::cli::top::figures::Figures;

    /// The contents of the screen.
    fn shown(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 32)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let rows = buffer.content().chunks(100);
        let row = |cells: &[ratatui::buffer::Cell]| {
            let row: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            format!("{}\n", row.trim_end())
        };
        rows.map(row).collect()
    }

    #[test]
    fn the_screen_has_a_panel_for_each_part() {
        let route = "http_request_method=\"GET\",http_route=\"/allocation_candidates\",http_response_status_code=\"200\"";
        let name = "http_server_request_duration_seconds";
        let look = |count: u32| {
            Samples::parse(&format!(
                "berth_ready 1\n{name}_count{{{route}}} {count}\n{name}_sum{{{route}}} 1\n\
                 {name}_bucket{{{route},le=\"0.01\"}} {count}\n{name}_bucket{{{route},le=\"+Inf\"}} {count}\n\
                 berth_turns_held{{kind=\"plan\"}} 1\nberth_turns_waiting{{kind=\"plan\"}} 3\n"
            ))
        };
        let mut view = View {
            url: "http://127.0.0.1:8778/".to_owned(),
            interval: 2,
            is_paused: false,
            server: Ok(Figures::between(&look(0), &look(500), 2.0)),
            cloud: Ok(None),
            hottest: vec![Hot { name: "host-7\nforged".to_owned(), changes_per_second: 12.5 }],
        };
        let text = shown(&view);
        for expected in [
            "http://127.0.0.1:8778/  ready",
            "q quits, p pauses, every 2 s",
            "GET     /allocation_candidates",
            "250",
            "plan          1 in progress, 3 waiting",
            r"12.5/s  host-7\nforged",
            "no data yet",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        view.server = Err("no metrics".to_owned());
        view.is_paused = true;
        let text = shown(&view);
        assert!(text.contains("no metrics") && text.contains("p resumes"), "{text}");
    }
}
