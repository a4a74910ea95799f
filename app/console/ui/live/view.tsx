// The view of calls as they happen, and below it that of one call.
import type { JSX } from 'preact'
import { CallView } from '../call/call-view.js'
import { LiveIcon } from '../kit/icons.js'
import { defineView, type ViewProps } from '../kit/view.js'
import { Live } from './live.js'
import { type LiveData, loadLive } from './load.js'

function LiveView({ data, location }: ViewProps<LiveData>): JSX.Element {
  const { list = { calls: [] }, shown, id = '' } = data
  return shown === undefined ? (
    <Live initial={list} query={location.query} />
  ) : (
    <CallView shown={shown} id={id} />
  )
}

export const liveView = defineView({
  id: 'live',
  title: 'Live',
  Icon: LiveIcon,
  isFor: ({ may }) => may.read_calls,
  load: loadLive,
  View: LiveView,
})
