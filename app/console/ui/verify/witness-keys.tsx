// The keys of witnesses that the reader enters: a key that the gateway gave would prove nothing about the gateway.
import { readGivenKeys } from '@svc/plugin-audit/browser'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { usePage } from '../kit/page.js'
import { keepWitnessKeys, keptWitnessKeys } from './kept-head.js'

export function WitnessKeys({ onKept }: { onKept(): void }): JSX.Element {
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
    const { logs, wrongLines } = readGivenKeys(line)
    if (logs.length + wrongLines.length > 0) return index + 1
  }
  return undefined
}
