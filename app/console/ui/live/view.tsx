// The view of calls as they happen, and below it that of one call.
import type { JSX } from 'preact'
import { LiveIcon } from '../kit/icons.js'
import { defineView, type ViewProps } from '../kit/view.js'
import { Live } from './live.js'
import { type LiveData, loadLive } from './load.js'

function LiveView({ data, location }: ViewProps<LiveData>): JSX.Element {
  return <Live initial={data} query={location.query} />
}

export const liveView = defineView({
  id: 'live',
  title: 'Live',
  Icon: LiveIcon,
  isFor: () => true,
  load: loadLive,
  View: LiveView,
})
