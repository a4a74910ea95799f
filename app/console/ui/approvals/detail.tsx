// A waiting call with all details: one sentence, the rule that stopped it, its input, its agent's words, and the votes.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { CallRow } from '../../calls/call-row.js'
import { CallList } from '../kit/call-list.js'
import { Copy } from '../kit/copy.js'
import { usePage } from '../kit/page.js'
import { castVote } from '../kit/passkey.js'
import { Time } from '../kit/time.js'
import { hiddenCharacters, Untrusted } from '../kit/untrusted.js'
import { Ballot } from './ballot.js'
import { DecidedBanner } from './decided-banner.js'
import { Input } from './input.js'
import { type ApprovalDetail, isUndecided } from './load.js'
import { Sentence } from './names.js'
import { EnrolmentPanel, RegisterPasskey } from './passkey-panel.js'
import { Votes } from './votes.js'
import { atTimeout, Left, ruleOf } from './waiting-list.js'

interface DetailProps {
  readonly detail: ApprovalDetail
  /** Whether its reader has opened it, so that on a phone it is on the screen. */
  readonly isOpened: boolean
  /** Whether others are picked, which are voted on together. */
  readonly hasPicks: boolean
  /** Loads the escalation again. */
  readonly onChange: () => Promise<void>
  readonly onVoted: () => Promise<void>
}

export function Detail({ detail, isOpened, hasPicks, onChange, onVoted }: DetailProps): JSX.Element {
  const { api, session } = usePage()
  const { escalation, input, sha256, context } = detail
  const [hasSeenAll, setSeenAll] = useState(false)
  const isPending = escalation.status === 'pending'
  const isOpen = isUndecided(escalation)
  const refusal = context.vote_refusal
  return (
    <article class="approval" aria-labelledby="approval-title">
      <div class="approval-body">
        <Headline detail={detail} />
        {!isPending && escalation.enrolment === undefined && (
          <DecidedBanner detail={detail} onChange={onChange} />
        )}
        <div class="approval-main">
          {escalation.enrolment !== undefined && (
            <EnrolmentPanel escalation={escalation} enrolment={escalation.enrolment} onChange={onChange} />
          )}
          {escalation.emergency !== undefined && <Emergency emergency={escalation.emergency} />}
          <Why detail={detail} />
          {input === undefined ? (
            <section>
              <h3>Input</h3>
              <p class="hint">
                {isPending
                  ? 'The policy hides arguments from reviewers.'
                  : 'It was deleted after the decision.'}
              </p>
            </section>
          ) : (
            <Input text={input} onSeen={() => setSeenAll(true)} />
          )}
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
        </div>
        <div class="approval-side">
          <Votes detail={detail} />
          {escalation.enrolment === undefined && (
            <>
              <History
                title="Last calls of"
                name={callerOf(escalation)}
                calls={context.caller_calls}
                show="tool"
              />
              <History
                title="Last calls to"
                name={escalation.tool}
                calls={context.tool_calls}
                show="caller"
              />
            </>
          )}
        </div>
      </div>
      {isOpen && refusal === undefined && !hasPicks && (
        <Ballot
          of={`${escalation.id} ${isOpened}`}
          unread={hasSeenAll || input === undefined ? undefined : 'Scroll to the end of the input first.'}
          hint={escalation.requires === undefined ? '' : 'Needs your passkey.'}
          hasHidden={input !== undefined && hiddenCharacters(input).length > 0}
          send={async (vote) => {
            try {
              await castVote(api, escalation, {
                ...vote,
                ...(sha256 === undefined ? {} : { input_sha256: sha256 }),
              })
            } finally {
              await onVoted()
            }
          }}
        >
          {escalation.requires !== undefined && session?.kind === 'user' && (
            <RegisterPasskey of={escalation} />
          )}
        </Ballot>
      )}
      {isOpen && refusal === undefined && hasPicks && (
        <p class="ballot hint">
          The picked calls are voted on together: press v, or clear them to vote on this one.
        </p>
      )}
      {isOpen && refusal !== undefined && <p class="ballot hint">You have no vote here. {refusal}</p>}
    </article>
  )
}

interface EmergencyProps {
  readonly emergency: NonNullable<ApprovalDetail['escalation']['emergency']>
}

function Emergency({ emergency: { reason, review } }: EmergencyProps): JSX.Element {
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
    </section>
  )
}

function Headline({ detail: { escalation, context } }: { readonly detail: ApprovalDetail }): JSX.Element {
  const { server, tenant, severity, status, id } = escalation
  return (
    <header class="headline">
      <h2 id="approval-title" tabIndex={-1}>
        <Sentence escalation={escalation} />
      </h2>
      <ul class="facts">
        <li>
          server <Untrusted text={server} cut={40} />
        </li>
        <li>
          tenant <Untrusted text={tenant} cut={40} />
        </li>
        <li>
          <span class={severity === 'high' ? 'badge bad' : 'badge'}>{severity} risk</span>{' '}
          {context.severity_reason}
        </li>
        <li>
          asked <Time at={escalation.created_at} show="ago" />
        </li>
        {status === 'pending' && (
          <li>
            <Left until={escalation.expires_at} then={`, then ${atTimeout(escalation)}`} />
          </li>
        )}
        <li>
          <Copy value={id} label="the escalation's id">
            {id.slice(0, 12)}
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
        <pre class="policy-lines">
          <Untrusted text={context.rule.lines.join('\n')} isBlock cut={4000} />
        </pre>
      )}
    </section>
  )
}

interface HistoryProps {
  readonly title: string
  readonly name: string
  /** The newest first. */
  readonly calls: readonly CallRow[]
  readonly show: 'tool' | 'caller'
}

/** The caller as its other calls are listed: by its agent if the token names nobody. */
function callerOf({ principal, principal_kind: kind, agent }: ApprovalDetail['escalation']): string {
  return kind === undefined ? (agent ?? principal) : principal
}

function History({ title, name, calls, show }: HistoryProps): JSX.Element {
  return (
    <section>
      <h3>
        {title} <Untrusted text={name} cut={40} isCell />
      </h3>
      {calls.length === 0 ? (
        <p class="hint">None in the newest part of the log.</p>
      ) : (
        <CallList caption={`${title} this one`} calls={calls} name={show} />
      )}
      {calls.length > 0 && calls.every(({ kept }) => kept === undefined) && (
        <p class="hint">
          Records have hashes of arguments. Values are here if <code>keep</code> of a rule names them.
        </p>
      )}
    </section>
  )
}
