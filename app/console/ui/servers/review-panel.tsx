// The changes in the definitions of a server since they were pinned, for an operator to accept.
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import type { ServerReviewJson } from '../../../gateway/operations.js'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { ErrorBanner } from '../kit/error-banner.js'
import { usePage, useSettled } from '../kit/page.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

/** A second click, or a held key, that opened the dialog must not accept what it asks about. */
const ASK_MS = 500

interface ReviewPanelProps {
  readonly review: ServerReviewJson
  readonly onAccepted: () => void
}

export function ReviewPanel({ review, onAccepted }: ReviewPanelProps): JSX.Element {
  const { api, session } = usePage()
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [isSending, setSending] = useState(false)
  const [isAsking, setAsking] = useState(false)
  const isSettled = useSettled(isAsking ? review.review : undefined, ASK_MS)
  const { server, definitions } = review
  const count = `${definitions.length} ${definitions.length === 1 ? 'definition' : 'definitions'}`
  const accept = async () => {
    setSending(true)
    try {
      await api.send('POST', '/api/definitions/accept', { server, review: review.review })
      dialog.current?.close()
      onAccepted()
    } catch (cause) {
      setError(apiRefusalOf(cause))
    } finally {
      setSending(false)
    }
  }
  const ask = () => {
    dialog.current?.showModal()
    setAsking(true)
  }
  return (
    <section class="panel review">
      <header>
        <h2>
          {count} {definitions.length === 1 ? 'waits' : 'wait'}: new or changed since the server was pinned,
          and kept from callers until accepted
        </h2>
        {session?.may.operate === true && (
          <button type="button" class="primary" onClick={ask}>
            Accept…
          </button>
        )}
      </header>
      <ul>
        {definitions.map(({ kind, name, sha256, at, pinned, difference }) => (
          <li key={sha256}>
            <p class="what">
              <span class={`badge ${pinned.length === 0 ? '' : 'warn'}`}>
                {pinned.length === 0 ? 'new' : 'changed'}
              </span>
              {kind}
              <strong class="mono">
                <Untrusted text={name} cut={120} />
              </strong>
              <span class="note">
                first seen <Time at={at} show="day and time" />
              </span>
            </p>
            {difference === undefined ? (
              <p class="note">Its text is no longer kept.</p>
            ) : (
              <Difference lines={difference} />
            )}
          </li>
        ))}
      </ul>
      <dialog ref={dialog} class="accept" aria-labelledby="accept-title" onClose={() => setAsking(false)}>
        <h2 id="accept-title">
          Accept {count} of <Untrusted text={server} cut={80} />?
        </h2>
        <ErrorBanner error={error} />
        <p>Callers are then shown them, and may call what the policy allows. It is on record.</p>
        <p class="actions">
          <button
            type="button"
            class="primary"
            disabled={isSending || !isSettled}
            onClick={() => void accept()}
          >
            Accept {count}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Leave it
          </button>
        </p>
      </dialog>
    </section>
  )
}

function Difference({ lines }: { readonly lines: readonly string[] }): JSX.Element {
  return (
    <ul class="difference">
      {lines.map((line, index) => {
        const sign = line.trimStart()[0]
        const tone = sign === '+' ? 'added' : sign === '-' ? 'removed' : 'pointer'
        return (
          <li key={index} class={tone}>
            <Untrusted text={line.trimStart()} cut={800} />
          </li>
        )
      })}
    </ul>
  )
}
