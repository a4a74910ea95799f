// One vote on several calls: each with its sentence, the hash that the vote states, and its whole input.
import type { JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import type { VoteResultJson } from '../../../escalations/operations.js'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { useEvents } from '../kit/events.js'
import { usePage } from '../kit/page.js'
import { castVotes } from '../kit/passkey.js'
import { hiddenCharacters, Untrusted } from '../kit/untrusted.js'
import { Ballot } from './ballot.js'
import { DecidedBy } from './decided-banner.js'
import { Input } from './input.js'
import { isUndecided, loadShownCall, type ShownCall } from './load.js'
import { Sentence } from './names.js'
import { atTimeout, Left, ruleOf } from './waiting-list.js'

type Loaded = ShownCall | { readonly error: ApiRefusal }

interface TogetherProps {
  readonly picked: readonly string[]
  readonly onLeaveOut: (id: string) => void
  readonly onClose: () => void
  readonly onVoted: () => Promise<void>
}

export function Together({ picked, onLeaveOut, onClose, onVoted }: TogetherProps): JSX.Element {
  const { api } = usePage()
  const { calls, load } = useCalls(picked)
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set())
  const [results, setResults] = useState<ReadonlyMap<string, VoteResultJson> | undefined>()
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus({ preventScroll: true }), [results])
  // The reasons of the gateway why this reviewer has no vote on a call, by its id.
  const [refused, setRefused] = useState<ReadonlyMap<string, string>>(new Map())
  const isLoading = picked.some((id) => !calls.has(id))
  const voted = picked.flatMap((id) => {
    const call = calls.get(id)
    return call !== undefined && !('error' in call) && whyNot(call, refused.get(id)) === undefined
      ? [call]
      : []
  })
  const unread = voted.filter((call) => call.input !== undefined && !seen.has(keyOf(call))).length
  const send = async (given: { readonly vote: 'approve' | 'reject'; readonly comment?: string }) => {
    const escalations = voted.map(({ escalation: { id }, sha256 }) => ({
      id,
      ...(sha256 === undefined ? {} : { input_sha256: sha256 }),
    }))
    const needsPasskey = voted.some(({ escalation }) => escalation.requires !== undefined)
    try {
      const told = await castVotes(api, { ...given, escalations }, needsPasskey)
      setResults(new Map(told.map((one) => [one.id, one])))
    } catch (cause) {
      const { escalation_id: id, message, denial_reason: reason } = apiRefusalOf(cause)
      if (id !== undefined && reason !== 'passkey_required')
        setRefused((all) => new Map([...all, [id, message]]))
      throw cause
    } finally {
      // Another reviewer may have been faster with some.
      await Promise.all([load(voted.map(({ escalation }) => escalation.id)), onVoted()])
    }
  }
  return (
    <article class="approval together" aria-labelledby="together-title">
      <div class="approval-body">
        <header class="headline">
          <h2 id="together-title" tabIndex={-1} ref={title}>
            {results === undefined ? headOf(picked.length) : resultOf(results)}
          </h2>
          {results === undefined && (
            <p class="hint">
              One vote on each, with the same comment. It states the hash of the input that is shown.
            </p>
          )}
        </header>
        <ol class="together-calls">
          {picked.map((id) => (
            <Call
              key={id}
              call={calls.get(id)}
              refused={refused.get(id)}
              result={results?.get(id)}
              isDone={results !== undefined}
              onSeen={(call) => setSeen((all) => new Set([...all, keyOf(call)]))}
              onLeaveOut={() => onLeaveOut(id)}
            />
          ))}
        </ol>
      </div>
      {results === undefined ? (
        <Ballot
          of={voted.map(keyOf).join()}
          calls={isLoading ? 0 : voted.length}
          unread={
            isLoading
              ? 'Loading …'
              : unread > 0
                ? `Scroll to the end of each input first: ${unread} to go.`
                : undefined
          }
          hint={
            voted.some(({ escalation }) => escalation.requires !== undefined)
              ? 'One signature of your passkey.'
              : ''
          }
          hasHidden={voted.some(({ input = '' }) => hiddenCharacters(input).length > 0)}
          send={send}
        />
      ) : (
        <footer class="ballot">
          <div class="choices">
            <button type="button" onClick={onClose}>
              Close
            </button>
          </div>
        </footer>
      )}
    </article>
  )
}

/** Loads the calls that were picked, and those again that change. */
function useCalls(picked: readonly string[]) {
  const { api } = usePage()
  const [calls, setCalls] = useState<ReadonlyMap<string, Loaded>>(new Map())
  const asked = useRef(new Set<string>())
  const load = useCallback(
    async (ids: readonly string[]) => {
      const each = ids.map(async (id): Promise<[string, Loaded]> => {
        asked.current.add(id)
        return [id, await loadShownCall(api, id).catch((cause) => ({ error: apiRefusalOf(cause) }))]
      })
      const loaded = await Promise.all(each)
      setCalls((all) => new Map([...all, ...loaded]))
    },
    [api],
  )
  useEffect(() => void load(picked.filter((id) => !asked.current.has(id))), [picked, load])
  useEvents({
    escalations: ({ changed }) => void load(picked.filter((id) => changed.includes(id))),
    reopened: () => void load(picked),
  })
  return { calls, load }
}

interface CallProps {
  /** Undefined while it is loaded. */
  readonly call: Loaded | undefined
  /** Why the gateway takes no vote on it. */
  readonly refused: string | undefined
  readonly result: VoteResultJson | undefined
  readonly isDone: boolean
  readonly onSeen: (call: ShownCall) => void
  readonly onLeaveOut: () => void
}

function Call({ call, refused, result, isDone, onSeen, onLeaveOut }: CallProps): JSX.Element {
  const leaveOut = !isDone && (
    <button type="button" class="quiet" onClick={onLeaveOut}>
      Leave out
    </button>
  )
  if (call === undefined || 'error' in call) {
    return (
      <li>
        <p class={call === undefined ? 'hint' : 'bad'}>
          {call === undefined ? 'Loading …' : call.error.message}
        </p>
        {leaveOut}
      </li>
    )
  }
  const { escalation, input, sha256 } = call
  const why = isDone ? undefined : whyNot(call, refused)
  return (
    <li>
      <h3 class="together-head">
        <Sentence escalation={escalation} />
        {leaveOut}
      </h3>
      {why !== undefined && (
        <p class="bad" role="status">
          Not in the vote: {why} {!isUndecided(escalation) && <DecidedBy escalation={escalation} />}
        </p>
      )}
      {isDone && <Outcome escalation={escalation} result={result} />}
      {!isDone && why === undefined && (
        <>
          <p class="hint">
            <Untrusted text={escalation.detail ?? ruleOf(escalation.reason)} cut={300} />
            {escalation.status === 'pending' ? (
              <>
                {' · '}
                <Left until={escalation.expires_at} then={`, then ${atTimeout(escalation)}`} />
              </>
            ) : (
              ' · It ran in an emergency; this is its review.'
            )}
          </p>
          {input === undefined ? (
            <p class="hint">The policy hides arguments from reviewers.</p>
          ) : (
            <Input text={input} onSeen={() => onSeen(call)} />
          )}
        </>
      )}
      {sha256 !== undefined && why === undefined && (
        <p class="hash">
          SHA-256 of the input <code>{sha256}</code>
        </p>
      )}
    </li>
  )
}

interface OutcomeProps {
  readonly escalation: EscalationJson
  readonly result: VoteResultJson | undefined
}

function Outcome({ escalation, result }: OutcomeProps): JSX.Element {
  const { status, quorum, votes } = escalation
  if (result?.escalation === undefined) {
    return (
      <p>
        <span class="badge bad">no vote</span> {result?.refused?.message ?? 'It was not in the vote.'}{' '}
        {!isUndecided(escalation) && <DecidedBy escalation={escalation} />}
      </p>
    )
  }
  const approvals = votes.filter(({ vote }) => vote === 'approve').length
  const state = isUndecided(escalation)
    ? `It waits for others: ${approvals} of ${quorum?.approvals ?? 1} approvals.`
    : `It is ${escalation.emergency?.review ?? status}.`
  return (
    <p>
      <span class="badge good">voted</span> {state}
    </p>
  )
}

/** The call, and the input that was shown. */
function keyOf({ escalation, sha256 }: ShownCall): string {
  return `${escalation.id} ${sha256 ?? ''}`
}

/** Why a call cannot be among those that are voted on together. */
function whyNot(call: Loaded, refused: string | undefined): string | undefined {
  if ('error' in call) return call.error.message
  if (!isUndecided(call.escalation))
    return `it is ${call.escalation.emergency?.review ?? call.escalation.status}.`
  if (call.escalation.enrolment !== undefined)
    return 'a passkey is confirmed alone, with the code that its owner reads to you.'
  return refused
}

function headOf(count: number): string {
  return count === 1 ? 'Vote on 1 call' : `Vote on ${count} calls together`
}

function resultOf(results: ReadonlyMap<string, VoteResultJson>): string {
  const counted = [...results.values()].filter(({ escalation }) => escalation !== undefined).length
  return `${counted} of ${results.size} votes cast`
}
