// The newest head, the last one that witnesses confirmed, and the records that wait.
import type { ComponentChildren, JSX } from 'preact'
import type { LogJson } from '../../../log/log-json.js'
import { Copy } from '../kit/copy.js'
import { useNow } from '../kit/page.js'
import { inWords, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

/** A witness that confirms nothing for this long is late. */
const LATE_MS = 3_600_000

export function Heads({ log }: { readonly log: LogJson }): JSX.Element {
  const { origin, head, cosigned, sealed_at: sealedAt, writing, upload } = log
  return (
    <dl class="log-facts panel">
      <Fact name="Log">{origin === null ? 'without a journal' : <Untrusted text={origin} cut={120} />}</Fact>
      <Fact name="Head">
        {head === null ? (
          'none yet'
        ) : (
          <>
            {head.size.toLocaleString('en')} leaves,{' '}
            <span class="mono" title={head.root}>
              {head.root.slice(0, 12)}…
            </span>{' '}
            <Copy value={head.note} label="the signed checkpoint">
              copy the checkpoint
            </Copy>
          </>
        )}
      </Fact>
      <Fact name="Last seal">{sealedAt === null ? 'none yet' : <Time at={sealedAt} show="ago" />}</Fact>
      <Fact name="Last witness">{cosigned === null ? 'no witness' : <Witnesses cosigned={cosigned} />}</Fact>
      <Fact name="Writing">
        <span class={`badge ${writing.writable ? (writing.warning === undefined ? 'good' : 'warn') : 'bad'}`}>
          {writing.writable ? 'writable' : 'NOT WRITABLE'}
        </span>{' '}
        {writing.warning !== undefined && <Untrusted text={writing.warning} />}
      </Fact>
      {upload !== undefined && (
        <Fact name="Upload">
          {upload.state}, <Waiting bytes={upload.pending_bytes} ms={upload.lag_ms ?? 0} />
        </Fact>
      )}
    </dl>
  )
}

function Fact({
  name,
  children,
}: {
  readonly name: string
  readonly children: ComponentChildren
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Witnesses({ cosigned }: { readonly cosigned: NonNullable<LogJson['cosigned']> }): JSX.Element {
  const now = useNow()
  const newest =
    cosigned.witnesses
      .map(({ at }) => at)
      .sort()
      .at(-1) ?? ''
  const isLate = now - Date.parse(newest) > LATE_MS
  return (
    <span class={isLate ? 'warn' : ''}>
      <Time at={newest} show="ago" />, at {cosigned.size.toLocaleString('en')} leaves, by{' '}
      <Untrusted text={cosigned.witnesses.map(({ name }) => name).join(', ')} cut={120} />
      {isLate && ' — late'}
    </span>
  )
}

function Waiting({ bytes, ms }: { readonly bytes: number; readonly ms: number }): JSX.Element {
  if (bytes === 0) return <>nothing waits</>
  return (
    <>
      {bytes.toLocaleString('en')} bytes wait, since {inWords(ms)}
    </>
  )
}
