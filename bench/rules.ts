// The cost of rules, as a share of a whole call: the same calls with and without conditions that are all true.
import { cpuOfCalls, reportCpu } from './gateway/cpu-of-calls.js'
import { SERVER } from './gateway/requests.js'
import { heading } from './measure/report.js'

const CONDITIONS = [
  "args.limit <= vars.max || 'finance' in caller.roles",
  "!has(args.currency) || args.currency in ['EUR', 'USD']",
  "args.status.all(status, status in ['open', 'overdue'])",
  "!has(args.note) || !args.note.matches('(?i)urgent|asap')",
  "caller.tenant != 'nobody' && args.order.by == 'due'",
]

function rules(count: number, tools?: readonly string[]) {
  return Array.from({ length: count }, (_, at) => ({
    name: `rule-${at}`,
    ...(tools === undefined ? {} : { tools: tools.map((tool) => `${tool}-${at}`) }),
    require: CONDITIONS[at % CONDITIONS.length],
    then: 'deny' as const,
  }))
}

const vars = { max: 1_000_000 }
const settings = new Map([
  ['no rules', {}],
  ['10 rules that apply', { vars, rules: rules(10) }],
  ['1,000 rules that apply', { vars, rules: rules(1000) }],
  ['1,000 rules of other tools', { vars, rules: rules(1000, [`${SERVER}/other`]) }],
])

/** The rounds, by policy. */
export async function measureRules(disk: string, quick: boolean): Promise<unknown> {
  heading('Rules: CPU of a call')
  const rounds = await cpuOfCalls(disk, quick, settings)
  reportCpu(rounds, 'no rules')
  return Object.fromEntries(rounds)
}
