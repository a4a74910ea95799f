// The vote: a key or a button opens a comment, Ctrl+Enter sends it.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { useKeys } from '../kit/keys.js'
import { usePage, useSettled } from '../kit/page.js'
import { Untrusted } from '../kit/untrusted.js'

type Choice = 'approve' | 'reject'

interface BallotProps {
  /** Names what is voted on, and changes with it. */
  readonly of: string
  /** How many calls are voted on together; absent: the one that is shown. */
  readonly calls?: number
  /** Why it cannot be approved yet. */
  readonly unread: string | undefined
  readonly hint: string
  /** Whether an input that is voted on has hidden characters. */
  readonly hasHidden: boolean
  readonly send: (vote: { readonly vote: Choice; readonly comment?: string }) => Promise<void>
  /** Beside the buttons. */
  readonly children?: ComponentChildren
}

/** Nobody reads a call in less time, and a list that moves must not catch a click for another call. */
const SETTLE_MS = 1_000

/** "Send" appears where "Approve" was: the second of two quick clicks must not send a vote. */
const SEND_MS = 500

export function Ballot({ of, calls, unread, hint, hasHidden, send, children }: BallotProps): JSX.Element {
  const { session } = usePage()
  const [choice, setChoice] = useState<Choice | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [isBusy, setBusy] = useState(false)
  const isSettled = useSettled(of, SETTLE_MS)
  const isSendable = useSettled(choice, SEND_MS)
  const comment = useRef<HTMLTextAreaElement>(null)
  const box = useRef<HTMLElement>(null)
  const last = useRef<Choice | undefined>(undefined)
  const isOpen = isSettled && calls !== 0
  const wait = isSettled ? unread : 'A moment …'
  const several = calls === undefined ? '' : ` ${calls} call${calls === 1 ? '' : 's'}`
  // A comment that was begun is of what was shown.
  useEffect(() => setChoice(undefined), [of])
  useEffect(() => {
    comment.current?.focus()
    if (choice === undefined && last.current !== undefined)
      box.current?.querySelector<HTMLElement>(`.${last.current}`)?.focus()
    last.current = choice
  }, [choice])
  const choose = (one: Choice) => {
    if (isOpen && (unread === undefined || one === 'reject')) setChoice(one)
  }
  useKeys({ a: () => choose('approve'), r: () => choose('reject') })
  const cast = async () => {
    if (choice === undefined || isBusy || !isOpen || (choice === 'approve' && unread !== undefined)) return
    setBusy(true)
    try {
      const text = comment.current?.value.trim() ?? ''
      await send({ vote: choice, ...(text === '' ? {} : { comment: text }) })
      setChoice(undefined)
      setError(undefined)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    }
    setBusy(false)
  }
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape') setChoice(undefined)
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    void cast()
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
            aria-describedby={hasHidden ? 'hidden-warning' : undefined}
            disabled={!isOpen || wait !== undefined}
            onClick={() => choose('approve')}
          >
            Approve{several} <kbd>a</kbd>
          </button>
          <button
            type="button"
            class="reject"
            aria-keyshortcuts="r"
            disabled={!isOpen}
            onClick={() => choose('reject')}
          >
            Reject{several} <kbd>r</kbd>
          </button>
          <span class="hint" role="status">
            {wait ?? hint}
          </span>
          {hasHidden && (
            <span id="hidden-warning" class="warning">
              Hidden characters: see above
            </span>
          )}
          {children}
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
            {choice === 'approve' ? 'Approve' : 'Reject'}
            {several} with a comment <span class="label">(optional)</span>
          </label>
          <textarea id="comment" ref={comment} rows={2} maxLength={1000} onKeyDown={press} />
          <div class="choices">
            <button type="button" class={choice} disabled={isBusy || !isSendable} onClick={() => void cast()}>
              Send {calls === undefined || calls === 1 ? '' : `${calls} `}
              {choice === 'approve' ? 'approval' : 'rejection'}
              {calls === undefined || calls === 1 ? '' : 's'} <kbd>Ctrl+Enter</kbd>
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
