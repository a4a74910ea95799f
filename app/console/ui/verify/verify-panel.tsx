// The checks of one record, and what they came to.
import { readVerifierKeys } from '@svc/plugin-audit/browser'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { usePage } from '../kit/page.js'
import { inWords, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { keepWitnessKeys, keptWitnessKeys } from './saved-head.js'
import type { RecordVerification } from './use-verification.js'
import type { VerifiedRow } from './verify-record.js'

const words = { ok: 'correct', failed: 'WRONG', unchecked: 'not checked' } as const
const levels = { ok: 'good', failed: 'bad', unchecked: '' } as const
const verdicts = { ok: 'Proven', failed: 'NOT PROVEN', unchecked: 'Not checked' } as const

export function VerifyPanel({ verification }: { readonly verification: RecordVerification }): JSX.Element {
  const { servedFor } = usePage()
  const { state, found, error, sealing, verify, keep } = verification
  return (
    <section class={`panel verify ${levels[state]}`} aria-labelledby="verify-title">
      <h2 id="verify-title">
        Verify <span class={`badge ${levels[state]}`}>{verdicts[state]}</span>
      </h2>
      {error !== undefined && <p role="alert">Not checked now: {error.message}</p>}
      {error === undefined && found === undefined && (
        <p role="status">{sealing === undefined ? 'Checking …' : describeSealing(sealing)}</p>
      )}
      {found !== undefined && (
        <ul class="checks">
          {found.rows.map((row) => (
            <Row key={row.name} row={row} />
          ))}
        </ul>
      )}
      {found !== undefined && found.unknown.length > 0 && (
        <div class="banner warn">
          <span>This browser has not seen before what follows. Compare it, then keep it:</span>
          {found.unknown.map((line) => (
            <code key={line}>
              <Untrusted text={line} />
            </code>
          ))}
          <button type="button" onClick={keep}>
            Keep it
          </button>
        </div>
      )}
      <WitnessKeys onKept={() => void verify()} />
      <p class="note">
        Checked by code from {servedFor === undefined ? 'this gateway' : 'your own installation'}
        {found?.kept !== undefined && (
          <>
            , against the head that this browser has kept since{' '}
            <Time at={found.kept.since} show="day and time" />
          </>
        )}
        .{' '}
        {found?.isStored === true && found.kept === undefined && 'This browser keeps the head from now on. '}
        {found?.isStored === false &&
          'The browser does not store the head, which is kept until you leave this page. '}
        {servedFor === undefined && (
          <>
            A gateway that lies could send other code: <code>npx svc-sdk console --admin URL</code> serves
            these pages from your own installation.
          </>
        )}
      </p>
    </section>
  )
}

/** @param intervalMs null if the log is not sealed. */
function describeSealing(intervalMs: number | null): string {
  if (intervalMs === null)
    return 'Not sealed: this log has no checkpoints (audit.checkpoints: false), so that no record of it can be proven.'
  return `Not sealed yet: the log is sealed every ${intervalMs < 1000 ? `${intervalMs} ms` : inWords(intervalMs)}.`
}

function Row({ row: { name, result } }: { readonly row: VerifiedRow }): JSX.Element {
  return (
    <li class={result.state}>
      <span class={`badge ${levels[result.state]}`}>{words[result.state]}</span>
      <span class="check">
        <Untrusted text={name} cut={100} />
      </span>
      <span class="why">
        <Untrusted text={result.state === 'ok' ? result.detail : result.reason} />
        {result.state === 'failed' && result.expected !== undefined && (
          <span class="hash mono">expected {result.expected}</span>
        )}
        {result.state === 'failed' && result.found !== undefined && (
          <span class="hash mono">found {result.found}</span>
        )}
      </span>
    </li>
  )
}

/**
 * The keys of witnesses that the reader enters: a key that the gateway gave would prove nothing about the gateway.
 */
function WitnessKeys({ onKept }: { onKept(): void }): JSX.Element {
  const { witnessKeys } = usePage()
  const [text, setText] = useState('')
  const [wrong, setWrong] = useState<number | undefined>()
  const [isStored, setStored] = useState(true)
  useEffect(() => setText(keptWitnessKeys()), [])
  const keep = () => {
    const line = wrongLineOf(text)
    setWrong(line)
    if (line !== undefined) return
    setStored(keepWitnessKeys(text.trim()))
    onKept()
  }
  return (
    <details class="witness-keys">
      <summary>Keys of witnesses</summary>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          keep()
        }}
      >
        <label for="witness-keys">
          Verifier keys, one a line, from the witnesses themselves and not from this gateway
          {witnessKeys !== undefined && ', beside those that svc console was started with'}
        </label>
        <textarea
          id="witness-keys"
          class="mono"
          rows={3}
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        {wrong !== undefined && <p role="alert">Line {wrong} is not the verifier key of a witness.</p>}
        {!isStored && (
          <p role="alert">They are used until you leave this page: the browser does not store them.</p>
        )}
        <button type="submit">Keep these keys</button>
      </form>
    </details>
  )
}

/** The number of the first line that is not the key of a witness. */
function wrongLineOf(text: string): number | undefined {
  for (const [index, line] of text.split('\n').entries()) {
    const { logs, wrongLines } = readVerifierKeys(line)
    if (logs.length + wrongLines.length > 0) return index + 1
  }
  return undefined
}
