// The caller of a waiting call, and its values.
import { Fragment, type JSX } from 'preact'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { Untrusted } from '../kit/untrusted.js'

interface NamesProps {
  readonly escalation: Pick<EscalationJson, 'agent' | 'principal' | 'principal_kind'>
  /** The same as in `Untrusted`. */
  readonly isCell?: boolean
}

/** The agent states its own name; the caller's name is from its token. */
export function Names({ escalation, isCell = false }: NamesProps): JSX.Element {
  const { agent, principal, principal_kind: kind } = escalation
  const hasAgent = agent !== undefined && agent !== principal
  const isNameless = hasAgent && kind === undefined
  return (
    <>
      {hasAgent && (
        <>
          {!isCell && 'Agent '}
          <strong title="the agent, as it names itself">
            <Untrusted text={agent} cut={isCell ? 24 : 60} isName isCell={isCell} />
          </strong>
          {isNameless ? `, no known user${isCell ? '' : ','}` : ' for '}
        </>
      )}
      {kind !== undefined && (hasAgent || isCell ? `${kind} ` : `${kind === 'user' ? 'User' : 'Client'} `)}
      {!isNameless && (
        <strong title="the caller, by its token">
          <Untrusted text={principal} cut={80} isName isCell={isCell} />
        </strong>
      )}
    </>
  )
}

export function Values({ values = [] }: Pick<EscalationJson, 'values'>): JSX.Element {
  return (
    <>
      {values.map(({ name, value }, at) => (
        <Fragment key={at}>
          {at > 0 && ', '}
          <Untrusted text={name} />{' '}
          <b>
            <Untrusted text={value} />
          </b>
        </Fragment>
      ))}
    </>
  )
}

interface SentenceProps {
  readonly escalation: Pick<
    EscalationJson,
    'agent' | 'principal' | 'principal_kind' | 'tool' | 'status' | 'values' | 'enrolment'
  >
}

/** `Agent agent-7 for user bob@example.com wants refund_payment, amount 240`. */
export function Sentence({ escalation }: SentenceProps): JSX.Element {
  const { tool, status, values = [], enrolment } = escalation
  return (
    <span class="sentence">
      <Names escalation={escalation} /> {status === 'pending' ? 'wants' : 'wanted'}{' '}
      {enrolment === undefined ? (
        <code>
          <Untrusted text={tool} cut={80} isName />
        </code>
      ) : (
        'to register a passkey'
      )}
      {values.length > 0 && ', '}
      <Values values={values} />
    </span>
  )
}
