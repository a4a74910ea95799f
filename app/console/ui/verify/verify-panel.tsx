// The checks of one record, and what they came to.
import type { JSX } from 'preact'
import { usePage } from '../kit/page.js'
import { inWords, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { RecordVerification } from './use-verification.js'
import type { VerifiedRow } from './verify-record.js'
import { WitnessKeys } from './witness-keys.js'

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
