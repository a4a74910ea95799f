// The filter of the records, and the evidence for it: first how much it is, then the file.
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { EstimateJson } from '../../../log/log-json.js'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { usePage } from '../kit/page.js'
import { filterFields, filterQuery } from './load.js'

export function EvidenceForm({ query }: { readonly query: string }): JSX.Element {
  const { api } = usePage()
  const [estimate, setEstimate] = useState<EstimateJson | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [isBusy, setBusy] = useState(false)
  const given = new URLSearchParams(query)
  const asked = filterQuery(query)
  const measure = async () => {
    setBusy(true)
    try {
      setEstimate(await api.get<EstimateJson>(`/api/evidence/estimate?${asked}`))
      setError(undefined)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    } finally {
      setBusy(false)
    }
  }
  const filter = (event: SubmitEvent) => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement)) return
    const fields = [...new FormData(event.currentTarget)].map(([name, value]) => [name, String(value)])
    location.assign(`/console/log?${filterQuery(new URLSearchParams(fields).toString())}`)
  }
  const box = useRef<HTMLDetailsElement>(null)
  // On a phone the records would begin below the screen.
  useEffect(() => {
    if (box.current !== null && asked === '') box.current.open = !matchMedia('(max-width: 720px)').matches
  }, [asked])
  return (
    <details ref={box} class="log-filter-box" open>
      <summary>Filter and evidence</summary>
      <form class="log-filter panel" aria-label="Filter" onSubmit={filter}>
        {filterFields.map(({ name, label, isDay, options }) => (
          <div key={name} class="field">
            <label for={`filter-${name}`}>{label}</label>
            {options === undefined ? (
              <FilterInput name={name} value={given.get(name) ?? ''} isDay={isDay === true} />
            ) : (
              <select id={`filter-${name}`} name={name}>
                {options.map(([value, text]) => (
                  <option key={value} value={value} selected={value === (given.get(name) ?? '')}>
                    {text}
                  </option>
                ))}
              </select>
            )}
          </div>
        ))}
        <div class="actions">
          <button type="submit" class="primary">
            Filter
          </button>
          <button type="button" onClick={() => void measure()} disabled={isBusy}>
            Evidence for this filter
          </button>
          {error !== undefined && <span role="alert">{error.message}</span>}
          {estimate !== undefined && <Offer estimate={estimate} asked={asked} />}
        </div>
      </form>
    </details>
  )
}

function FilterInput({
  name,
  value,
  isDay,
}: {
  readonly name: string
  readonly value: string
  readonly isDay: boolean
}): JSX.Element {
  const id = `filter-${name}`
  // A link may have a time of the day, which a field for dates would drop.
  if (isDay && (value === '' || /^\d{4}-\d\d-\d\d$/.test(value)))
    return <input id={id} name={name} type="date" defaultValue={value} />
  const keys = name === 'tool' ? '/' : undefined
  return <input id={id} name={name} defaultValue={value} maxLength={200} aria-keyshortcuts={keys} />
}

function Offer({
  estimate,
  asked,
}: {
  readonly estimate: EstimateJson
  readonly asked: string
}): JSX.Element {
  const { records, bytes, max_bytes: max, not_sealed: notSealed } = estimate
  const later = notSealed === 0 ? '' : `; ${notSealed.toLocaleString('en')} are not sealed yet and not in it`
  if (bytes > max) {
    return (
      <span role="status">
        {records.toLocaleString('en')} records would be {sizeOf(bytes)}, over {sizeOf(max)}: choose a shorter
        time.
      </span>
    )
  }
  return (
    <span role="status">
      {records.toLocaleString('en')} records, about {sizeOf(bytes)}
      {later}.{' '}
      {records > 0 && (
        <a href={`/api/evidence?${asked}`} download>
          Download the file
        </a>
      )}
    </span>
  )
}

function sizeOf(bytes: number): string {
  return bytes < 2 ** 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`
}
