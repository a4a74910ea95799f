// The vote: a key or a button opens a comment, Ctrl+Enter sends it.
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { useKeys } from '../kit/keys.js'
import { useIsLive, usePage } from '../kit/page.js'
import { castVote } from '../kit/passkey.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ApprovalDetail } from './load.js'
import { RegisterPasskey } from './passkey-panel.js'

type Choice = 'approve' | 'reject'

interface BallotProps {
  readonly detail: ApprovalDetail
  /** Whether its reader has opened it, so that on a phone it is on the screen. */
  readonly isOpened: boolean
  /** Whether the end of the input has been on the screen. */
  readonly hasSeenInput: boolean
  readonly onVoted: () => Promise<void>
}

/** Nobody reads a call in less; a list that moves must not catch a click that was for another. */
const SETTLE_MS = 1_000

export function Ballot({ detail, isOpened, hasSeenInput, onVoted }: BallotProps): JSX.Element {
  const { api, session } = usePage()
  const [choice, setChoice] = useState<Choice | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [isBusy, setBusy] = useState(false)
  const isSettled = useIsSettled(isOpened)
  const comment = useRef<HTMLTextAreaElement>(null)
  const box = useRef<HTMLElement>(null)
  const last = useRef<Choice | undefined>(undefined)
  const wait = !isSettled ? 'A moment …' : hasSeenInput ? undefined : 'Scroll to the end of the input first.'
  useEffect(() => {
    comment.current?.focus()
    if (choice === undefined && last.current !== undefined)
      box.current?.querySelector<HTMLElement>(`.${last.current}`)?.focus()
    last.current = choice
  }, [choice])
  const choose = (one: Choice) => {
    if (isSettled && (hasSeenInput || one === 'reject')) setChoice(one)
  }
  useKeys({ a: () => choose('approve'), r: () => choose('reject') })
  const send = async () => {
    if (choice === undefined || isBusy) return
    setBusy(true)
    try {
      const { escalation, input } = detail
      const text = comment.current?.value.trim() ?? ''
      await castVote(api, escalation, {
        vote: choice,
        ...(text === '' ? {} : { comment: text }),
        ...(input === undefined ? {} : { input_sha256: await sha256Of(input) }),
      })
      setChoice(undefined)
      setError(undefined)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    }
    setBusy(false)
    await onVoted()
  }
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape') setChoice(undefined)
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    void send()
  }
  return (
    <footer class="ballot" ref={box}>
      {error !== undefined && (
        <p class="bad" role="alert">
          {error.message}
        </p>
      )}
      {choice === undefined ? (
        <div class="choices">
          <button
            type="button"
            class="approve"
            aria-keyshortcuts="a"
            disabled={wait !== undefined}
            onClick={() => choose('approve')}
          >
            Approve <kbd>a</kbd>
          </button>
          <button
            type="button"
            class="reject"
            aria-keyshortcuts="r"
            disabled={!isSettled}
            onClick={() => choose('reject')}
          >
            Reject <kbd>r</kbd>
          </button>
          <span class="hint" role="status">
            {wait ?? (detail.escalation.requires === undefined ? '' : 'Needs your passkey.')}
          </span>
          {detail.escalation.requires !== undefined && session?.kind === 'user' && (
            <RegisterPasskey of={detail.escalation} />
          )}
          <span class="hint voter">
            You vote as{' '}
            <strong>
              <Untrusted text={session?.name ?? ''} cut={60} />
            </strong>
          </span>
        </div>
      ) : (
        <div class="comment">
          <label for="comment">
            {choice === 'approve' ? 'Approve' : 'Reject'} with a comment <span class="label">(optional)</span>
          </label>
          <textarea id="comment" ref={comment} rows={2} maxLength={1000} onKeyDown={press} />
          <div class="choices">
            <button type="button" class={choice} disabled={isBusy} onClick={() => void send()}>
              {choice === 'approve' ? 'Send approval' : 'Send rejection'} <kbd>Ctrl+Enter</kbd>
            </button>
            <button type="button" class="quiet" onClick={() => setChoice(undefined)}>
              Cancel
            </button>
          </div>
        </div>
      )}
    </footer>
  )
}

/** False until the escalation has been on the screen for a moment, also since it was opened. */
function useIsSettled(isOpened: boolean): boolean {
  const isLive = useIsLive()
  const [isSettled, setSettled] = useState(false)
  useEffect(() => {
    setSettled(false)
    if (!isLive) return
    const timer = setTimeout(() => setSettled(true), SETTLE_MS)
    return () => clearTimeout(timer)
  }, [isLive, isOpened])
  return isSettled
}

/** Of the text that was shown: the gateway refuses an approval of another. */
async function sha256Of(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
