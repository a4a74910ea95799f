// Verifies one record repeatedly while the reader looks at it, so that a change on disk is shown. What a page shows of the record
// comes from the bytes that were verified: a gateway that lies could prove one record and state another.
import type { JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { LogJson } from '../../../log/log-json.js'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { usePage } from '../kit/page.js'
import { keptWitnessKeys } from './saved-head.js'
import { type VerifiedRecord, verifyRecord } from './verify-record.js'

const EVERY_MS = 3000

interface StatedRecord {
  /** Null if it is not sealed yet. */
  readonly leaf: number | null
  readonly record: Readonly<Record<string, unknown>>
  /** Finds the leaf of a record that was not sealed. */
  readonly findLeaf?: () => Promise<number | null>
}

export interface RecordVerification {
  readonly state: VerifiedRecord['state']
  /** The proof's record, or the gateway's while no proof exists. */
  readonly record: StatedRecord['record']
  readonly found: VerifiedRecord | undefined
  readonly error: ApiRefusal | undefined
  /** How often the log is sealed, for a record that is not; null: never. */
  readonly sealing: number | null | undefined
  verify(): Promise<void>
  /** Trusts the keys and the log that this browser has not kept. */
  keep(): void
}

export function useVerification({ leaf: given, record, findLeaf }: StatedRecord): RecordVerification {
  const { api, witnessKeys = '' } = usePage()
  const [leaf, setLeaf] = useState(given)
  const [found, setFound] = useState<VerifiedRecord | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [sealing, setSealing] = useState<number | null | undefined>()
  const [trusted] = useState(() => new Set<string>())
  const origin = useRef<string | undefined>(undefined)
  const latest = useRef({ record, findLeaf })
  latest.current = { record, findLeaf }

  const verify = useCallback(async () => {
    try {
      const { record: stated, findLeaf: find } = latest.current
      const at = leaf ?? (await find?.()) ?? null
      if (at !== leaf) setLeaf(at)
      const shown = {
        stated,
        day: String(stated['ts']).slice(0, 10),
        origin: origin.current,
        trusts: (line: string) => trusted.has(line),
        witnessKeys: `${witnessKeys}\n${keptWitnessKeys()}`,
      }
      const verified = at === null ? undefined : await verifyRecord(api, at, shown)
      origin.current ??= verified?.origin
      setFound(verified)
      if (verified === undefined) setSealing((await api.get<LogJson>('/api/log')).seal_interval_ms)
      setError(undefined)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    }
  }, [api, leaf, trusted, witnessKeys])

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let isOver = false
    const again = async () => {
      if (document.visibilityState === 'visible') await verify()
      if (!isOver) timer = setTimeout(() => void again(), EVERY_MS)
    }
    void again()
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [verify])

  const keep = () => {
    for (const line of found?.unknown ?? []) trusted.add(line)
    void verify()
  }
  const state = error === undefined ? (found?.state ?? 'unchecked') : 'unchecked'
  return { state, record: found?.record ?? record, found, error, sealing, verify, keep }
}

/** Says whose word the shown record is. */
export function RecordSource({ state, found }: RecordVerification): JSX.Element {
  return (
    <p class="hint">
      {state === 'ok'
        ? 'From the record that is proven below.'
        : found?.record === undefined
          ? 'As the gateway says: not proven.'
          : 'From the record whose checks are below: not proven.'}
    </p>
  )
}

/** Marks a value that the record does not contain. */
export function AsTheGatewaySays(): JSX.Element {
  return <p class="hint">As the gateway says; the record does not have it.</p>
}
