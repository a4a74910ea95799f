// Searches for the JSON value of a given size that takes the most time to be read, by hill climbing from a seed. A value is
// written by a recipe: tokens of the rules, and the shape in which they stand.
import { ReadingBudget } from '@svc/plugin-protections/internal/shared/reading-budget'
import { type TextRole, textRules } from '@svc/plugin-protections/internal/text/rules'
import { TextScanner } from '@svc/plugin-protections/internal/text/scan'
import { TextSearch } from '@svc/plugin-protections/internal/text/texts'
import type { Chance } from '../../../support/chance.js'

type Tokens = readonly [string, ...string[]]

const shapes = [
  ...([
    'one text',
    'lines',
    'short texts',
    'long texts',
    'names',
    'nested',
    'items',
    'file',
    'JSON',
  ] as const),
] as [Shape, ...Shape[]]
type Shape =
  | ('one text' | 'lines' | 'short texts' | 'long texts' | 'names')
  | ('nested' | 'items' | 'file' | 'JSON')
const lengths = [3, 8, 16, 64, 300, 1_000, 4_000, 16_000, 65_000] as [number, ...number[]]

export interface Recipe {
  readonly tokens: Tokens
  /** What ends each text, such as the one assignment of a variable that stands everywhere. */
  readonly tail: string
  readonly shape: Shape
  /** Characters of one text. */
  readonly length: number
}

/** What detectors look for, whole and begun. */
const fragments = [
  ...['$a ', ' a=id', '$', '`', '$(', ')', '{', '}', ',', "'", '"', '\\', '?', '*', '[', ']', '^', '|', ';'],
  ...['\n', ' ', '/', '/??', 'id ', 'cat', "c'a't", 'i\\d', 'tr ', 'rev', 'curl ', 'python -c ', 'pwsh -e '],
  ...['eval ', 'base64 ', '| sh', 'openssl enc ', '-d', '$IFS', "$'", '\\x41', '\\u0041', '%41', '&#65;'],
  ...['%E2%80%AE', '&amp;', '&#x202e;', '\u202e', '\u200b', 'a\u200b', '\u{e0041}', '\ufe0f', '\x1b[8;'],
  ...['\x1b[2K', '\x9b', 'é', 'а', '\u0301', '\uff49', 'a', 'A', '1', '=', '-', '.', ':', '@', '41', '0x41'],
  ...['QUFB', 'aB1', 'a b ', '<!--', '-->', '<!-- a b c', '<', 'style="', '<|', '## ', 'SYSTEM:', 'sk-'],
  ...['ghp_', 'eyJ', '4111 1111 ', 'DE89', '{"a":', '-----BEGIN PRIVATE KEY-----', 'Bearer ', '://', 'nc '],
]

let known: Tokens | undefined

/** Words of all rules, their examples whole and without an end, and parts of what detectors look for. */
function tokens(): Tokens {
  known ??= [
    '$a ',
    ...fragments,
    ...textRules().flatMap((rule) => [
      ...rule.words.flatMap(({ steps }) =>
        steps.map(({ words: [word = ''] }) => `${word.replace('*', '')} `),
      ),
      ...rule.contains,
      ...rule.for.flatMap((text) => [text, text.slice(0, -2)]),
    ]),
  ]
  return known
}

/** A value of about `size` characters of JSON. */
export function messageOf({ tokens, tail, shape, length }: Recipe, size: number): unknown {
  const unit = tokens.join('') || ' '
  const text = (characters: number): string => {
    const room = Math.max(characters - tail.length, 1)
    return unit.repeat(Math.ceil(room / unit.length)).slice(0, room) + tail
  }
  const each = (perText: number, one = length): string[] =>
    Array.from({ length: Math.ceil(size / (one + perText)) }, () => text(one))
  switch (shape) {
    case 'one text':
      return text(size)
    case 'lines':
      return each(1).join('\n')
    case 'short texts':
      return each(3, Math.min(length, 16))
    case 'long texts':
      return each(3)
    case 'names':
      return Object.fromEntries(each(8).map((one, at) => [`${one}${at}`, 1]))
    case 'nested': {
      const texts = each(5)
      const chains = Array.from({ length: Math.ceil(texts.length / 100) }, (_, _at) => texts.splice(0, 100))
      return chains.map((chain) => chain.reduce<unknown>((inner, one) => [one, inner], null))
    }
    case 'items':
      return each(25).map((one) => ({ type: 'text', text: one }))
    case 'file':
      return { mimeType: 'image/png', data: text(size) }
    case 'JSON':
      return each(10).map((one) => JSON.stringify([JSON.stringify([one])]))
  }
}

const scanners = new Map<TextRole, TextScanner>()

/** Nanoseconds of CPU for each byte of JSON; the least of several measurements, as code is compiled and the machine does other work. */
export async function costOf(value: unknown, role: TextRole, times = 6): Promise<number> {
  const scanner = scanners.get(role) ?? new TextScanner(role)
  scanners.set(role, scanner)
  const bytes = Buffer.byteLength(JSON.stringify(value))
  let least = Number.POSITIVE_INFINITY
  for (let time = 0; time < times; time++) {
    // Without a limit, so that what exceeds the limit is seen.
    const budget = new ReadingBudget(Number.POSITIVE_INFINITY)
    const before = process.cpuUsage()
    await new TextSearch(scanner, budget, role === 'result').value(value)
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, ((user + system) * 1_000) / bytes)
  }
  return least
}

export interface Costliest {
  readonly recipe: Recipe
  /** Nanoseconds for each byte. */
  readonly cost: number
}

/** Climbs from a recipe by chance, and keeps each change that costs more. */
export async function costliest(
  chance: Chance,
  role: TextRole,
  { steps, size }: { readonly steps: number; readonly size: number },
): Promise<Costliest> {
  let recipe: Recipe = {
    tokens: [chance.pick(tokens())],
    tail: '',
    shape: chance.pick(shapes),
    length: chance.pick(lengths),
  }
  let cost = await costOf(messageOf(recipe, size), role)
  for (let step = 0; step < steps; step++) {
    const next = changed(recipe, chance)
    const nextCost = await costOf(messageOf(next, size), role)
    if (nextCost > cost) [recipe, cost] = [next, nextCost]
  }
  return { recipe, cost }
}

function changed(recipe: Recipe, chance: Chance): Recipe {
  const [first, ...others] = recipe.tokens
  switch (chance.int(0, 5)) {
    case 0:
      return { ...recipe, shape: chance.pick(shapes) }
    case 1:
      return { ...recipe, length: chance.pick(lengths) }
    case 2:
      return { ...recipe, tail: chance.next() < 0.5 ? '' : chance.pick(tokens()) }
    case 3:
      return { ...recipe, tokens: [chance.pick(tokens()), ...others] }
    case 4:
      return { ...recipe, tokens: [others[0] ?? first, ...others.slice(1)] }
    default:
      return { ...recipe, tokens: [first, ...others.slice(-4), chance.pick(tokens())] }
  }
}
