// A call that waits, whole: one sentence, the rule that stopped it, its input, what its agent says, who has voted.
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import type { CallRow } from '../../calls/call-row.js'
import { Copy } from '../kit/copy.js'
import { CallDecisionBadge } from '../kit/decision.js'
import { ScrollBox } from '../kit/scroll-box.js'
import { Time } from '../kit/time.js'
import { hiddenCharacters, Untrusted } from '../kit/untrusted.js'
import { Ballot } from './ballot.js'
import { DecidedBanner } from './decided-banner.js'
import { type ApprovalDetail, isUndecided } from './load.js'
import { callSentenceOf, indented } from './sentence.js'
import { Votes } from './votes.js'
import { Left, ruleOf } from './waiting-list.js'

interface DetailProps {
  readonly detail: ApprovalDetail
  /** Loads it anew. */
  readonly onChange: () => Promise<void>
  readonly onVoted: () => Promise<void>
}

export function Detail({ detail, onChange, onVoted }: DetailProps): JSX.Element {
  const { escalation, input, context } = detail
  const [hasSeenAll, setSeenAll] = useState(false)
  const isPending = escalation.status === 'pending'
  const isOpen = isUndecided(escalation)
  const refusal = context.vote_refusal
  return (
    <article class="approval">
      <div class="approval-body">
        <Headline detail={detail} />
        {!isPending && <DecidedBanner detail={detail} onChange={onChange} />}
        {escalation.emergency !== undefined && <Emergency emergency={escalation.emergency} />}
        <Why detail={detail} />
        <section>
          <h3>
            Input
            {input !== undefined && <HiddenCount text={input} />}
          </h3>
          {input === undefined ? (
            <p class="hint">
              {isPending
                ? 'The policy hides arguments from reviewers.'
                : 'It was deleted after the decision.'}
            </p>
          ) : (
            <Input text={input} onSeen={() => setSeenAll(true)} />
          )}
        </section>
        {context.agent_reason !== undefined && (
          <section>
            <h3>
              The agent's reason <span class="badge">unverified</span>
            </h3>
            <blockquote>
              <Untrusted text={context.agent_reason} isBlock cut={600} />
            </blockquote>
          </section>
        )}
        <Votes escalation={escalation} />
        <div class="histories">
          <History
            title="Last calls of"
            name={escalation.principal}
            calls={context.caller_calls}
            show="tool"
          />
          <History title="Last calls to" name={escalation.tool} calls={context.tool_calls} show="caller" />
        </div>
      </div>
      {isOpen && refusal === undefined && (
        <Ballot detail={detail} hasSeenInput={hasSeenAll || input === undefined} onVoted={onVoted} />
      )}
      {isOpen && refusal !== undefined && <p class="ballot hint">You have no vote here. {refusal}</p>}
    </article>
  )
}

const reviews = {
  open: 'Its review is open: approve confirms the emergency, reject objects.',
  confirmed: 'Reviewers confirmed the emergency.',
  objected: 'Reviewers objected.',
} as const

interface EmergencyProps {
  readonly emergency: NonNullable<ApprovalDetail['escalation']['emergency']>
}

function Emergency({ emergency }: EmergencyProps): JSX.Element {
  const { reason, review } = emergency
  return (
    <section>
      <h3>
        It ran in an emergency, before it was approved{' '}
        <span class={review === 'confirmed' ? 'badge' : 'badge bad'}>review {review}</span>
      </h3>
      {reason !== undefined && (
        <blockquote>
          <Untrusted text={reason} isBlock cut={600} />
        </blockquote>
      )}
      <p>{reviews[review]}</p>
    </section>
  )
}

function Headline({ detail }: { readonly detail: ApprovalDetail }): JSX.Element {
  const { escalation } = detail
  const { agent, caller, tool, values } = callSentenceOf(detail)
  return (
    <header class="headline">
      <h2>
        {agent !== undefined && (
          <>
            <strong>
              <Untrusted text={agent} cut={60} />
            </strong>{' '}
            for{' '}
          </>
        )}
        <strong>
          <Untrusted text={caller} cut={80} />
        </strong>{' '}
        {escalation.status === 'pending' ? 'wants' : 'wanted'}{' '}
        <code>
          <Untrusted text={tool} cut={80} />
        </code>
        {values.map(([name, value]) => (
          <span key={name}>
            , <Untrusted text={name} /> <b>{<Untrusted text={value} />}</b>
          </span>
        ))}
      </h2>
      <ul class="facts">
        <li>
          on <Untrusted text={escalation.server} cut={40} />
        </li>
        <li>
          tenant <Untrusted text={escalation.tenant} cut={40} />
        </li>
        <li>
          <span class={escalation.severity === 'high' ? 'badge bad' : 'badge'}>
            {escalation.severity} risk
          </span>
        </li>
        <li>
          asked <Time at={escalation.created_at} show="ago" />
        </li>
        {escalation.status === 'pending' && (
          <li>
            <Left until={escalation.expires_at} />
          </li>
        )}
        <li>
          <Copy value={escalation.id} label="the escalation's id">
            {escalation.id.slice(0, 12)}
          </Copy>
        </li>
      </ul>
    </header>
  )
}

function Why({ detail: { escalation, context } }: { readonly detail: ApprovalDetail }): JSX.Element {
  const { reason, detail } = escalation
  return (
    <section>
      <h3>
        Why it {escalation.status === 'pending' ? 'waits' : 'waited'}:{' '}
        <Untrusted text={ruleOf(reason)} cut={60} />
      </h3>
      {detail !== undefined && (
        <p>
          <Untrusted text={detail} cut={300} />
        </p>
      )}
      {context.rule !== undefined && (
        <ScrollBox class="policy-lines" label="The rule in the policy">
          {context.rule.lines.map((line) => (
            <span key={line}>
              <Untrusted text={line} cut={200} />
              {'\n'}
            </span>
          ))}
        </ScrollBox>
      )}
    </section>
  )
}

function HiddenCount({ text }: { readonly text: string }): JSX.Element | null {
  const count = hiddenCharacters(text)
  if (count === 0) return null
  return (
    <span class="badge bad">
      {count} hidden character{count === 1 ? '' : 's'}
    </span>
  )
}

/** All of it. `onSeen` is called once its end has been on the screen. */
function Input({ text, onSeen }: { readonly text: string; readonly onSeen: () => void }): JSX.Element {
  const isSeen = useRef(false)
  const look = (box: HTMLElement | null) => {
    if (box === null || isSeen.current) return
    if (box.scrollTop + box.clientHeight < box.scrollHeight - 4) return
    isSeen.current = true
    onSeen()
  }
  return (
    <ScrollBox
      class="input"
      label="The whole input"
      boxRef={(box) => {
        // Once the page is laid out.
        if (box !== null) requestAnimationFrame(() => look(box))
      }}
      onScroll={look}
    >
      <Untrusted text={indented(text)} isBlock cut={Number.POSITIVE_INFINITY} />
    </ScrollBox>
  )
}

interface HistoryProps {
  readonly title: string
  readonly name: string
  /** The newest first. */
  readonly calls: readonly CallRow[]
  readonly show: 'tool' | 'caller'
}

function History({ title, name, calls, show }: HistoryProps): JSX.Element {
  return (
    <section>
      <h3>
        {title} <Untrusted text={name} cut={40} />
      </h3>
      {calls.length === 0 ? (
        <p class="hint">None in what is kept at hand.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">{show === 'tool' ? 'Tool' : 'Caller'}</th>
              <th scope="col">Decision</th>
              <th scope="col" class="number">
                ms
              </th>
            </tr>
          </thead>
          <tbody>
            {calls.map((call) => (
              <tr key={call.id}>
                <td>
                  <Time at={call.at} />
                </td>
                <td class={show === 'tool' ? 'mono' : ''}>
                  <Untrusted text={call[show] === '' ? 'nobody known' : call[show]} cut={28} />
                </td>
                <td>
                  <CallDecisionBadge call={call} />
                </td>
                <td class="number">{Math.round(call.latency_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}
