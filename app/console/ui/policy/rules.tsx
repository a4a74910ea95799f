// The rules of the policy in words, each with how often it decided in the last 24 hours.
import type { JSX } from 'preact'
import type { RuleJson } from '../../policy-operations.js'
import { Untrusted } from '../kit/untrusted.js'
import type { PolicyData } from './load.js'

export function Rules({ data: { policy, activity } }: { readonly data: PolicyData }): JSX.Element {
  const reasons = activity?.reasons ?? []
  const decided = (name: string) =>
    reasons.filter(({ reason }) => reason === `rule:${name}`).reduce((sum, { calls }) => sum + calls, 0)
  const others = reasons.filter(({ reason }) => !policy.rules.some(({ name }) => reason === `rule:${name}`))
  return (
    <div class="columns">
      <section class="panel">
        <h2>Rules, and how often each decided in 24 hours</h2>
        {policy.rules.length === 0 && (
          <p class="none">
            The policy has no conditions on calls; its lists and limits are under “Who may use what”.
          </p>
        )}
        <ol class="rules">
          {policy.rules.map((rule) => (
            <li key={rule.name}>
              <div class="head">
                <strong class="mono">
                  <Untrusted text={rule.name} cut={80} />
                </strong>
                {activity !== undefined && <Calls count={decided(rule.name)} />}
              </div>
              <Words rule={rule} />
              {rule.message !== null && (
                <p class="note">
                  “<Untrusted text={rule.message} cut={300} />”
                </p>
              )}
            </li>
          ))}
        </ol>
      </section>
      <div class="aside">
        {others.length > 0 && (
          <section class="panel">
            <h2>What else decided in 24 hours</h2>
            <ul class="others">
              {others.slice(0, MAX_OTHERS).map(({ reason, effect, calls }) => (
                <li key={`${reason} ${effect}`}>
                  <span class="mono">
                    <Untrusted text={reason} cut={80} />
                  </span>
                  <span class={effects[effect]?.[0]}>{outcomes[effect] ?? effect}</span>
                  <Calls count={calls} />
                </li>
              ))}
            </ul>
          </section>
        )}
        <section class="panel">
          <h2>Stages, in the order in which they judge</h2>
          <ol class="stages">
            {policy.stages.map(({ name, version, source }) => (
              <li key={name}>
                <span class="mono">
                  <Untrusted text={name} cut={60} />
                </span>{' '}
                <span class="note">
                  {version}, <Untrusted text={source} cut={80} />
                </span>
              </li>
            ))}
          </ol>
        </section>
      </div>
    </div>
  )
}

function Calls({ count }: { readonly count: number }): JSX.Element {
  const text = `${count.toLocaleString('en')} ${count === 1 ? 'call' : 'calls'}`
  return <span class={count === 0 ? 'number none' : 'number'}>{text}</span>
}

const MAX_OTHERS = 12

const outcomes: Readonly<Record<string, string>> = {
  deny: 'denied',
  escalate: 'waited',
  confirm: 'to be confirmed',
  reported: 'reported',
  would_deny: 'would be denied',
}

const effects: Readonly<Record<string, readonly [tone: string, words: string]>> = {
  deny: ['bad', 'is denied'],
  escalate: ['warn', 'waits for a person'],
  confirm: ['warn', 'is confirmed by the person at the client'],
  report: ['', 'is reported, and passes'],
}

function Words({
  rule: { tools, condition, holds_if: holds, effect, approval_set_id: set },
}: {
  readonly rule: RuleJson
}) {
  const [tone, words] = effects[effect] ?? ['', effect]
  return (
    <p>
      A call of{' '}
      {tools.length === 0
        ? 'any tool'
        : tools.map((tool, index) => (
            <span key={tool}>
              {index > 0 && ' or '}
              <code>
                <Untrusted text={tool} cut={120} />
              </code>
            </span>
          ))}{' '}
      {condition !== null && (
        <>
          {holds === 'not_condition' ? 'unless ' : 'if '}
          <code>
            <Untrusted text={condition} cut={300} />
          </code>{' '}
        </>
      )}
      <strong class={tone}>{words}</strong>
      {set !== null && (
        <>
          {' '}
          of <Untrusted text={set} cut={60} />
        </>
      )}
      .
    </p>
  )
}
