import { signAnnouncement } from '../../shared/announcements/announcement-service.ts'
import type { Context } from '../../shared/context.ts'
import type { Payload } from '../../shared/queues.ts'

/** Signs an announcement, from when on it is listed. */
export async function signAnnouncementJob(ctx: Context, payload: Payload<'sign-announcement'>): Promise<void> {
  if (await signAnnouncement(ctx, payload.announcement_id)) ctx.log.info(payload, 'an announcement was signed')
}
