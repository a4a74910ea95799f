// A call in one sentence: who called what, how it ended, and whether it was sent.
import type { JSX } from 'preact'
import type { CallJson } from '../../calls/show-call.js'
import { milliseconds } from '../kit/call-list.js'
import { callDecision } from '../kit/decision.js'
import { Untrusted } from '../kit/untrusted.js'
import { recordedDecision } from './decision-panel.js'
import type { CallOfRecord } from './recorded-call.js'

interface CallSentenceProps {
  readonly call: CallOfRecord
  readonly record: CallJson['record']
}

const sentWords = { no: 'nothing was sent', yes: 'it was sent', unknown: 'it may have been sent' } as const

export function CallSentence({ call, record }: CallSentenceProps): JSX.Element {
  const { agent, caller, tenant, server, tool, sent, latency_ms: ms } = call
  const { tone } = callDecision(call)
  return (
    <>
      <b>
        <Untrusted text={agent ?? caller} cut={60} />
      </b>
      {agent !== undefined && caller !== agent && (
        <>
          {' for '}
          <b>
            <Untrusted text={caller} cut={60} />
          </b>
        </>
      )}
      {' of '}
      <Untrusted text={tenant} cut={60} />
      {' called '}
      <b class="mono">
        <Untrusted text={`${server}/${tool}`} cut={100} />
      </b>
      {': '}
      <strong class={tone}>
        <Outcome call={call} record={record} />
      </strong>
      {`, ${milliseconds(ms)} ms`}
      {sent === undefined ? '' : `; ${sentWords[sent]}`}
    </>
  )
}

function Outcome({ call, record }: CallSentenceProps): JSX.Element {
  const { word } = callDecision(call)
  const { stage, rule } = recordedDecision(record)
  if (word === 'allowed') return <>allowed</>
  if (word === 'would deny')
    return (
      <>
        sent, as the policy observes; it would be denied: <Untrusted text={call.reasons[0] ?? ''} cut={80} />
      </>
    )
  if (word === 'failed') return <>failed{call.error === undefined ? '' : ` with ${call.error}`}</>
  const does = word === 'waits' ? 'waits, ' : 'denied '
  if (rule?.startsWith('rule:') === true) {
    return (
      <>
        {does}by the rule <Untrusted text={rule.slice('rule:'.length)} cut={80} />
      </>
    )
  }
  const reason = rule ?? call.reasons[0] ?? call.error
  return (
    <>
      {does.trim()}
      {stage !== undefined && (
        <>
          {' by '}
          <Untrusted text={stage} cut={60} />
        </>
      )}
      {reason !== undefined && (
        <>
          {': '}
          <Untrusted text={reason} cut={80} />
        </>
      )}
    </>
  )
}
