import { COMMON_OPTIONS, formatFlag, formatUsage } from './arguments.ts';
import { usageError } from './command-error.ts';
import { defineVerb, type OptionSpecs, type Shown, type Verb } from './verb.ts';

/** The verb "help" for a table of verbs. */
export function helpVerb(verbs: readonly Verb[]): Verb {
  return defineVerb({
    name: 'help',
    words: ['[VERB]'],
    options: {},
    help: 'List the verbs, or say what one does',
    run: async ({ words: [name] }) => showHelp(verbs, name),
  });
}

/** @throws CommandError `usage` for a verb that is none */
export function showHelp(verbs: readonly Verb[], name: string | undefined): Shown {
  if (name === undefined) return { answer: { ok: true, verbs: verbs.map(describe), count: verbs.length }, text: formatOverview(verbs) };
  const verb = verbs.find((candidate) => candidate.name === name);
  if (verb === undefined) throw usageError(`There is no verb ${JSON.stringify(name)}; "help" lists them all.`);
  const flags = formatOptions({ ...verb.options, ...COMMON_OPTIONS });
  return { answer: { ok: true, verb: describe(verb) }, text: `${formatUsage(verb)}\n\n${verb.help}.\n\n${flags}` };
}

function describe(verb: Verb): object {
  return { name: verb.name, usage: formatUsage(verb), help: verb.help };
}

function formatOverview(verbs: readonly Verb[]): string {
  const width = Math.max(...verbs.map(({ name, words }) => [name, ...words].join(' ').length));
  return [
    'npm run --silent agent -- VERB [words] [--url URL] [--json]',
    '',
    ...verbs.map(({ name, words, help }) => `  ${[name, ...words].join(' ').padEnd(width)}  ${help}`),
    '',
    formatOptions(COMMON_OPTIONS),
    '',
    'VERB --help says what a verb takes. The token is kept in AGENT_HOME, or ~/.agent-network: one file for each service.',
    'Exit codes: 0 done, 1 refused or not reached, 2 not understood, 130 stopped.',
  ].join('\n');
}

function formatOptions(specs: OptionSpecs): string {
  const rows = Object.entries(specs).map(([name, spec]) => [formatFlag(name, spec), spec.help] as const);
  const width = Math.max(...rows.map(([flag]) => flag.length));
  return rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`).join('\n');
}
