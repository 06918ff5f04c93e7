//! Redirects: the files they name, and what they connect to standard input.

use super::{
    super::{
        FileAction, Reach, Word, danger,
        files::NamedFile,
        syntax::{Redirect, RedirectKind},
        words,
    },
    Walker,
    commands::{CommandContext, StdinSource},
};

impl Walker<'_> {
    /// Records the files of redirects, and returns what they connect to standard input.
    pub(super) fn redirects(
        &mut self,
        redirects: &[Redirect],
        through: &[String],
    ) -> CommandContext {
        let mut context = CommandContext { through: through.to_vec(), ..CommandContext::default() };
        if let Some(is_fetched) = self.pipe {
            context.input = StdinSource::Pipe { is_fetched };
        }
        for redirect in redirects {
            let is_fetched = self.expand(&redirect.target, through);
            if let Some(name) = &redirect.variable {
                self.assigned(name, true);
            }
            if let Some(body) = redirect.here {
                let body = self.bodies.get(body).cloned().unwrap_or_default();
                let is_fetched = self.expand(&body, through);
                context.input = match body.literal() {
                    Some(text) => StdinSource::Text(text),
                    None => StdinSource::Pipe { is_fetched },
                };
                continue;
            }
            let targets = words::resolve(&redirect.target, is_fetched);
            let [target] = targets.as_slice() else {
                self.doubt(&redirect.target.source, "a redirect to more than one file");
                continue;
            };
            self.redirect(redirect.how, target, &mut context);
        }
        context
    }

    pub(super) fn redirect(
        &mut self,
        how: RedirectKind,
        target: &Word,
        context: &mut CommandContext,
    ) {
        let is_descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let uses: &[FileAction] = match how {
            RedirectKind::Here => {
                context.input = match target.known() {
                    Some(text) => StdinSource::Text(text.to_owned()),
                    None => StdinSource::Pipe { is_fetched: target.is_fetched },
                };
                return;
            }
            RedirectKind::Duplicate if target.known().is_some_and(is_descriptor) => return,
            RedirectKind::Duplicate | RedirectKind::Write => &[FileAction::Write],
            RedirectKind::Read => {
                context.input = if target.is_process {
                    StdinSource::Pipe { is_fetched: target.is_fetched }
                } else {
                    StdinSource::File
                };
                &[FileAction::Read]
            }
            RedirectKind::ReadWrite => &[FileAction::Read, FileAction::Write],
        };
        if target.prefix.starts_with("/dev/tcp/") || target.prefix.starts_with("/dev/udp/") {
            self.doubt(&target.text, "it uses the network by a redirect");
        }
        for how in uses {
            self.file(&NamedFile { word: target.clone(), how: *how, reach: Reach::Itself });
            if *how == FileAction::Write {
                context.redirect_danger =
                    context.redirect_danger.or_else(|| danger::writes(target));
            }
        }
    }
}
