// Sends generated names under generated policies through a whole gateway. Each tool that a reader runs must have passed the
// allowlist, the limit and the mandate for the name that the reader read.
import { FakeClock } from 'svc-sdk/testing'
import { Chance } from '../../support/chance.js'
import { ReadersGateway, type Reading, type Summary } from './experiment.js'
import { messageReaders, segmentReaders, type ToolRead } from './name-readers.js'
import type { GeneratedRequest } from './requests.js'

const tools = ['refund', 'pay_invoice', 'task', 'report.v2', 'straße', 'send_mail'] as const
type Tool = (typeof tools)[number]

/** The rules of a policy for a tool; the calls have no token, no mandate and no idempotency key. */
type Rule =
  | { readonly kind: 'free' | 'denied' | 'scope' | 'mandate' | 'key' }
  | { readonly kind: 'denied_version'; readonly version: string }
  | { readonly kind: 'limited'; readonly calls: number }

interface Policy {
  readonly allowlist: readonly string[]
  readonly rules: ReadonlyMap<Tool, Rule>
  readonly patterns: ReadonlyMap<Tool, string>
  /** Whether only versions 1.* are allowed. */
  readonly isPinned: boolean
}

const allowlists = [
  ['*'],
  ['*'],
  ['billing/*', 'crm/*', 'files/*'],
  ['re*', '*_*'],
  ['*%40*', 'straße'],
  ['*_*', '*x'],
  ['refund', 'task', 'straße', 'pay_invoice'],
] as const

const capital = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

function policyOf(chance: Chance): Policy {
  const rules = new Map<Tool, Rule>()
  const patterns = new Map<Tool, string>()
  for (const tool of tools) {
    const kinds = [
      'free',
      'denied',
      'denied',
      'scope',
      'mandate',
      'key',
      'denied_version',
      'limited',
    ] as const
    const kind = chance.pick(kinds)
    if (kind === 'limited') rules.set(tool, { kind, calls: chance.int(0, 3) })
    else rules.set(tool, kind === 'denied_version' ? { kind, version: '1.0.0' } : { kind })
    const written = chance.int(0, 2) === 0 ? capital(tool) : tool
    patterns.set(tool, chance.pick([written, `*/${written}`, `mcp://*/${written}@*`]))
  }
  return { allowlist: chance.pick(allowlists), rules, patterns, isPinned: chance.int(0, 3) === 0 }
}

function sectionsOf({ allowlist, rules, patterns, isPinned }: Policy): Record<string, unknown> {
  const of = (kind: Rule['kind']) =>
    [...rules].flatMap(([tool, rule]) =>
      rule.kind === kind ? [{ rule, pattern: patterns.get(tool) ?? '' }] : [],
    )
  const patternsOf = (kind: Rule['kind']) => of(kind).map(({ pattern }) => pattern)
  const versions = of('denied_version').map(({ rule, pattern }) =>
    rule.kind === 'denied_version' ? `${pattern.replace(/@\*$/, '')}@${rule.version}` : pattern,
  )
  const limits = of('limited').map(({ rule, pattern }) => [
    pattern,
    { calls_per_day: rule.kind === 'limited' ? rule.calls : 0 },
  ])
  const all = <T>(names: readonly string[], value: T) =>
    Object.fromEntries(names.map((name) => [name, value]))
  return {
    entitlements: {
      default_plan: 'free',
      plans: { free: {} },
      tenants: {
        acme: {
          plan: 'free',
          allowlist,
          denylist: [...patternsOf('denied'), ...versions],
          per_tool: Object.fromEntries(limits),
        },
      },
    },
    authn: {
      allowUnauthenticated: true,
      oidc: {
        issuer: 'https://issuer.test',
        audience: 'gateway',
        jwks_uri: 'http://127.0.0.1:1/keys',
        scopes: { tools: all(patternsOf('scope'), ['more']) },
      },
    },
    security: {
      ...(isPinned ? { allow_versions: { billing: ['1.*'], crm: ['1.*'] } } : {}),
      side_effects: { require_idempotency_key: true, tools: { '*': false, ...all(patternsOf('key'), true) } },
    },
    ap2: { mode: 'full', tools: { allow: patternsOf('mandate') } },
  }
}

const versions = ['1.0.0', '1.0.0', '2.0.0'] as const
const ats = ['@', '@', '＠', '﹫'] as const
const outer = [' ', '.', '\u200b', '\ufeff', '\u00ad', '\u00a0', ' .', '\u3000', '…'] as const

const wide = (letter: string) => String.fromCodePoint(0xfee0 + letter.charCodeAt(0))
const lookalikes: Readonly<Record<string, string>> = { k: '\u212a', s: 'ſ', i: 'İ', ß: 'ẞ' }

const disguises: readonly [Disguise, ...Disguise[]] = [
  (name) => name.toUpperCase(),
  (name) => capital(name),
  (name, chance) => name.replace(/[a-z]/, (letter) => (chance.int(0, 1) === 0 ? wide(letter) : letter)),
  (name) => name.replace(/[ksiß]/g, (letter) => lookalikes[letter] ?? letter),
  (name) => name.replace('ß', 'ss'),
  (name, chance) => `${name}${chance.pick(outer)}`,
  (name, chance) => `${chance.pick(outer)}${name}`,
  (name, chance) => `${name.slice(0, 2)}${chance.pick(['\u200b', '\u00ad', '\ufe0f'])}${name.slice(2)}`,
  (name, chance) => `${name}${chance.pick(ats)}${chance.pick([...versions, 'x', ...tools])}`,
  (name, chance) => `${name}${chance.pick(ats)}${chance.pick([...versions, 'x', ...tools])}`,
  (name, chance) => `${chance.pick(['@', 'x@', ...tools])}@${name}`,
]
type Disguise = (name: string, chance: Chance) => string

function requestOf(chance: Chance): GeneratedRequest {
  const face = chance.pick(['invoke', 'invoke', 'a2a', 'invoke-mcp', 'a2a-mcp', 'tool'] as const)
  let name: string = chance.pick(tools)
  for (let more = chance.int(0, 2); more > 0; more--) name = chance.pick(disguises)(name, chance)
  const text = face === 'tool' ? name : `${encodeURIComponent(name)}@${chance.pick(versions)}`
  return { face, text }
}

/** The tools that the readers read from the forwarded request. */
function* readsOf({ sent }: Reading): Generator<readonly [string, ToolRead]> {
  if (sent === undefined) return
  const segment = /^\/billing\/invoke\/(.*)$/s.exec(sent.path)?.[1]
  const body = JSON.parse(sent.body) as { params?: { name?: string } }
  const text = segment === undefined ? (body.params?.name ?? '') : decodeURIComponent(segment)
  for (const [reader, read] of segment === undefined ? messageReaders : segmentReaders)
    for (const found of read(text)) yield [reader, found]
}

const isLike = (tool: Tool, read: string) => tool === read || tool.toUpperCase() === read

function errorIn(
  { allowlist, rules, isPinned }: Policy,
  server: string,
  reading: Reading,
  counts: Map<string, number>,
): string | undefined {
  for (const [reader, { tool: read, version }] of readsOf(reading)) {
    const tool = tools.find((known) => isLike(known, read))
    if (tool === undefined) continue
    const ran = `${reader}: runs ${tool}${version === undefined ? '' : `@${version}`}`
    if (isPinned && version !== undefined && !/^1\.[\w.+-]*$/.test(version))
      return `${ran}, a version that is not allowed`
    const isAllowed = allowlist.some((pattern) => {
      const glob = pattern.includes('/') ? pattern : `*/${pattern}`
      return new RegExp(`^${glob.replaceAll('*', '.*')}$`, 's').test(`${server}/${tool}`)
    })
    if (!isAllowed) return `${ran}, which no allowlist allows`
    const rule = rules.get(tool)
    if (rule === undefined || rule.kind === 'free') continue
    if (rule.kind === 'denied_version') {
      if (version === rule.version) return `${ran}, a version that is denied`
      continue
    }
    if (rule.kind !== 'limited') return `${ran}, which has the rule ${rule.kind}`
    const counted = `${reader} ${server} ${tool}`
    const count = (counts.get(counted) ?? 0) + 1
    counts.set(counted, count)
    if (count > rule.calls) return `${ran} for the ${count}. time, with a limit of ${rule.calls}`
  }
  return undefined
}

const NAMES_PER_POLICY = 150

/** Throws for the first name that a reader reads differently, with the number of its policy, which generates it. */
export async function compareNames(seed: number, requests: number): Promise<Summary> {
  let sent = 0
  const policies = Math.ceil(requests / NAMES_PER_POLICY)
  for (let number = seed; number < seed + policies; number++) {
    const chance = new Chance(number)
    const policy = policyOf(chance)
    const counts = new Map<string, number>()
    const clock = new FakeClock()
    await using gateway = await new ReadersGateway(undefined, sectionsOf(policy), clock).start()
    for (let i = 0; i < NAMES_PER_POLICY; i++) {
      const request = requestOf(chance)
      // The rate is below a flood, of which only a part has separate records.
      clock.advance(100)
      const reading = await gateway.read(request)
      if (reading.sent !== undefined) sent++
      const server = request.face === 'tool' ? 'files' : request.face.endsWith('-mcp') ? 'crm' : 'billing'
      const error =
        reading.records === 1 ? errorIn(policy, server, reading, counts) : `${reading.records} records`
      if (error !== undefined) {
        const given = JSON.stringify({ policy: sectionsOf(policy), request })
        throw new Error(`SVC_SEED=${number}: ${error}: ${given}`)
      }
    }
  }
  return { requests: policies * NAMES_PER_POLICY, sent }
}
