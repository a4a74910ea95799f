// The decision about a call: the entry of the policy, the findings, and the values that were read.
import type { JSX } from 'preact'
import type { CallJson } from '../../calls/show-call.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { AsTheGatewaySays } from '../verify/use-verification.js'

interface DecidedBy {
  readonly stage?: string
  readonly rule?: string
  readonly pattern?: string
  readonly limit?: string
  readonly approval?: string
}

/** The decision, as the record has it. */
export function recordedDecision(record: CallJson['record']): DecidedBy {
  return textsIn(record['decided_by'])
}

export function DecisionPanel({ shown }: { readonly shown: CallJson }): JSX.Element {
  const { record, rule, block } = shown
  const findings = listIn(record['findings'])
  const decided = Object.entries(textsIn(record['decided_by']))
  return (
    <section class="panel decided">
      <h2>What decided it</h2>
      {decided.length === 0 && findings.length === 0 && <p class="hint">No stage of the policy objected.</p>}
      {decided.length > 0 && (
        <dl>
          {decided.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="mono">
                <Untrusted text={value} cut={120} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {rule !== undefined && (
        <>
          <h3>
            Line {rule.line} of the policy in force then, <code>{rule.path}</code>
          </h3>
          <pre class="policy-lines">
            <Untrusted text={rule.lines.join('\n')} isBlock cut={4000} />
          </pre>
          <AsTheGatewaySays />
        </>
      )}
      {block !== undefined && (
        <>
          <h3>Turned off by an operator</h3>
          <p>
            <Untrusted text={block.by} cut={80} /> blocked the {block.kind}{' '}
            <span class="mono">
              <Untrusted text={block.pattern} cut={120} />
            </span>{' '}
            at <Time at={block.at} show="day and time" />,{' '}
            {block.until === null ? (
              'without an end'
            ) : (
              <>
                until <Time at={block.until} show="day and time" />
              </>
            )}
            : “<Untrusted text={block.reason} cut={400} />”
          </p>
          <AsTheGatewaySays />
        </>
      )}
      {rule === undefined && block === undefined && decided.length > 0 && (
        <p class="hint">The policy of that time is not kept here, or does not mention it.</p>
      )}
      <Values kept={record['kept']} hasRule={recordedDecision(record).rule?.startsWith('rule:') === true} />
      {findings.length > 0 && (
        <>
          <h3>Findings</h3>
          <ul class="findings">
            {findings.map((finding, at) => (
              <Finding key={at} finding={textsIn(finding)} />
            ))}
          </ul>
        </>
      )}
    </section>
  )
}

function Values({
  kept,
  hasRule,
}: {
  readonly kept: unknown
  readonly hasRule: boolean
}): JSX.Element | null {
  const values = isObject(kept) && isObject(kept['values']) ? Object.entries(kept['values']) : []
  if (values.length === 0) {
    return hasRule ? (
      <p class="hint">
        The record has no values of arguments; <code>keep</code> in a rule puts them there.
      </p>
    ) : null
  }
  return (
    <>
      <h3>Values read</h3>
      <dl>
        {values.map(([path, value]) => (
          <div key={path}>
            <dt class="mono">
              <Untrusted text={path} cut={80} />
            </dt>
            <dd class="mono">
              <Untrusted text={JSON.stringify(value)} cut={200} />
            </dd>
          </div>
        ))}
      </dl>
    </>
  )
}

function Finding({ finding }: { readonly finding: Readonly<Record<string, string>> }): JSX.Element {
  const { reason = '', effect = '', detail } = finding
  return (
    <li>
      <span class={`badge ${effect === 'deny' ? 'bad' : effect === 'escalate' ? 'warn' : ''}`}>
        <Untrusted text={effect} cut={20} />
      </span>{' '}
      <span class="mono">
        <Untrusted text={reason} cut={120} />
      </span>
      {detail !== undefined && (
        <p class="hint">
          <Untrusted text={detail} cut={400} />
        </p>
      )}
    </li>
  )
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** The members that are texts. */
function textsIn(value: unknown): Readonly<Record<string, string>> {
  if (!isObject(value)) return {}
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
