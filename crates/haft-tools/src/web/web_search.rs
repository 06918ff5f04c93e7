//! `web_search`: where something is to be found, by the engine that is configured.

use haft_core::{Net, Output, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{engines, fence};

const USUAL_RESULTS: usize = 8;
const MOST_RESULTS: usize = 20;

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "query": "rust async trait object safety", "domains": ["doc.rust-lang.org"] }))]
pub struct WebSearch {
    /// The words to look for.
    #[schemars(length(min = 1, max = 400), extend("x-aliases" = ["q", "search_term", "searchTerm"]))]
    pub query: String,
    /// The most results to return.
    #[serde(default = "usual_results")]
    #[schemars(range(min = 1, max = MOST_RESULTS), extend("x-aliases" = ["count", "num_results", "numResults", "max_results"]))]
    pub limit: usize,
    /// Only results from these hosts and those below them.
    #[serde(default)]
    #[schemars(length(max = 10), extend("x-aliases" = ["include_domains", "allowed_domains", "sites"]))]
    pub domains: Vec<String>,
}

fn usual_results() -> usize {
    USUAL_RESULTS
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Found {
    /// The engine that was asked.
    pub engine: String,
    /// The best first.
    #[schemars(extend("x-in-content" = true))]
    pub results: Vec<Hit>,
    #[serde(skip)]
    query: String,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hit {
    /// The title of the page.
    pub title: String,
    /// Its address.
    pub url: String,
    /// A part of its text, as the engine gives it.
    pub excerpt: String,
    /// When it was published, if the engine says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

impl Output for Found {
    fn text(&self) -> String {
        if self.results.is_empty() {
            return format!("{} finds nothing for this; try other or fewer words.", self.engine);
        }
        let entry = |(number, hit): (usize, &Hit)| {
            let when = hit.published.as_ref().map_or(String::new(), |when| format!(" ({when})"));
            let excerpt = if hit.excerpt.is_empty() {
                String::new()
            } else {
                format!("\n   {}", hit.excerpt)
            };
            format!("{}. {}{when}\n   {}{excerpt}", number + 1, hit.title, hit.url)
        };
        let entries: Vec<String> = self.results.iter().enumerate().map(entry).collect();
        fence::fenced(&format!("a search with {}", self.engine), &entries.join("\n"))
    }

    fn title(&self) -> Option<String> {
        Some(format!("Search {}", self.query))
    }
}

/// Searches the web.
#[tool(
    idempotent,
    deadline = "130s",
    variables(most_results = MOST_RESULTS),
    profiles(mcp, researcher)
)]
pub async fn web_search(input: WebSearch, net: Net) -> Result<Found, ToolError> {
    let engine = net.search()?.clone();
    let query = engines::Query::new(&input.query, input.limit, input.domains);
    let request = engines::request(&engine, &query)?;
    let response = net.send(request).await?;
    let results = engines::results(engine.kind, &response, &query)?;
    Ok(Found { engine: engine.kind.name().to_owned(), results, query: query.words })
}
