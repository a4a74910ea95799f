// A day of calls in a log, before its gateway starts: what a console shows of yesterday.
import { join } from 'node:path'
import { type AuditEnvelope, generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { Chance } from '../support/chance.js'

interface Kind {
  readonly server: string
  readonly tool: string
  readonly user: string
  readonly share: number
  readonly ms: number
  /** The reason of a denial. */
  readonly reason?: string
  readonly effect?: 'deny' | 'escalate'
}

const kinds: readonly Kind[] = [
  { server: 'billing', tool: 'get_invoice', user: 'ann', share: 40, ms: 12 },
  { server: 'billing', tool: 'list_invoices', user: 'agent-7', share: 25, ms: 30 },
  { server: 'crm', tool: 'find_customer', user: 'bob', share: 20, ms: 55 },
  { server: 'mail', tool: 'send', user: 'agent-7', share: 4, ms: 3, reason: 'flow:private_to_external' },
  {
    server: 'billing',
    tool: 'refund_payment',
    user: 'agent-7',
    share: 3,
    ms: 2,
    reason: 'rule:large-refunds',
  },
  {
    server: 'billing',
    tool: 'refund_payment',
    user: 'ann',
    share: 2,
    ms: 2,
    reason: 'tool_not_in_allowlist',
    effect: 'escalate',
  },
  { server: 'crm', tool: 'delete_customer', user: 'bob', share: 1, ms: 1, reason: 'tool_in_denylist' },
]

/** Writes a log of `count` calls in the 24 hours before `now` below `home`; resolves to the options of its gateway. */
export async function pastDay(home: string, now: number, count: number) {
  const keyRef = `file://${join(home, 'day-key')}`
  generateKeyFile(join(home, 'day-key'))
  const audit = {
    gatewayName: 'gw',
    gatewayVersion: '1.0.0',
    dir: join(home, 'day-audit'),
    signer: { keyRef },
  }
  await using log = new DayLog(audit)
  const random = () => log.random()
  const times = Array.from({ length: count }, () => random() ** 0.7 * 86_000_000).sort((a, b) => a - b)
  await log.appendAt(times.map((offset) => now - 86_400_000 + offset))
  return { audit }
}

interface DayAudit {
  readonly dir: string
  readonly signer: { readonly keyRef: string }
}

/** Appends calls to a log beside its gateway, as another worker does. */
export class DayLog implements AsyncDisposable {
  #appender: SvcAppender
  #chance = new Chance(11)

  constructor({ dir, signer }: DayAudit, retentionDays = 30) {
    this.#appender = new SvcAppender({
      signer: LocalDevSigner.fromKeyRef(signer.keyRef),
      config: { dir, retentionDays },
    })
  }

  random(): number {
    return this.#chance.next()
  }

  append(count: number): Promise<void> {
    return this.appendAt(Array.from({ length: count }, () => Date.now()))
  }

  /** @param times milliseconds since the epoch */
  async appendAt(times: readonly number[]): Promise<void> {
    await Promise.all(times.map((at) => this.#appender.append(this.#recordAt(at))))
  }

  #recordAt(at: number): AuditEnvelope {
    const random = () => this.random()
    const { server, tool, user, ms, reason, effect = 'deny' } = pick(random())
    const isFailed = reason === undefined && random() < 0.02
    return {
      ts: new Date(at).toISOString(),
      trace_id: hexadecimal(random, 32),
      span_id: hexadecimal(random, 16),
      tenant: 'acme',
      server: `${server}@1.2.0`,
      tool: `${tool}@1.2.0`,
      status: reason === undefined && !isFailed ? 'ok' : 'error',
      latency_ms: ms * (0.6 + random()) * (random() < 0.02 ? 8 : 1),
      principal: { user },
      gateway: 'gw@1.0.0',
      policy: { decision: reason === undefined ? 'allow' : 'deny', retention: 'standard' },
      ...(isFailed ? { error: 'UPSTREAM' } : {}),
      ...(reason === undefined
        ? {}
        : { error: 'TOOL_NOT_ALLOWED', findings: [{ reason, stage: 'rules', effect }] }),
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#appender.close()
  }
}

const shares = kinds.flatMap((kind) => Array.from({ length: kind.share }, () => kind))

/** A kind by its share; `at` is from 0 to 1. */
function pick(at: number): Kind {
  const kind = shares[Math.floor(at * shares.length)]
  if (kind === undefined) throw new RangeError(`${at} is not below 1`)
  return kind
}

function hexadecimal(random: () => number, digits: number): string {
  return Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join('')
}
